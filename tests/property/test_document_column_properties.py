"""JSON documents: the bulk takes, refuses and converts exactly as one document alone is taken, refused and converted."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.schemas.columns.cursor import Fault
from log_format.schemas.columns.documents import Documents, Refused
from tests.support.typed_shapes import records, values


@settings(max_examples=400)
@given(st.data())
def test_the_bulk_judges_as_each_alone(data: st.DataObject) -> None:
    """Documents, whole, damaged or two in one, get the same verdict and the same value together as alone."""
    shape = data.draw(records())
    texts = []
    for _ in range(data.draw(st.integers(2, 6))):
        text = json.dumps(data.draw(values(shape)), ensure_ascii=data.draw(st.booleans())).encode("utf-8", "replace")
        match data.draw(
            st.sampled_from(["whole", "whole", "whole", "whole", "cut", "twice", "spaced", "changed", "bytes"])
        ):
            case "cut":
                text = text[: data.draw(st.integers(0, len(text)))]
            case "twice":
                text += text
            case "spaced":
                text = b" \n" + text + b"\t\r\n"
            case "changed":
                at = data.draw(st.integers(0, len(text) - 1))
                text = text[:at] + data.draw(st.binary(min_size=1, max_size=1)) + text[at + 1 :]
            case "bytes":
                text = data.draw(
                    st.sampled_from(
                        [b"", b"{", b"}", b"{}", b'{"m0":', b"NaN", b'{"m0":NaN}', b'{"x":NaN}', b"\xff", b"[]"]
                    )
                )
        texts.append(text)
    documents = Documents(shape, bulk_min=1)
    column, faults = documents.column_of(pa.array(texts, pa.binary()))
    column.validate(full=True)
    assert column.type == documents.type
    for row, text in enumerate(texts):
        alone = _alone(documents, text)
        if isinstance(alone, Fault):
            assert faults.get(row) == alone, text
            assert not column[row].is_valid
        else:
            assert row not in faults, (text, faults[row])
            assert repr(column[row].as_py()) == repr(pa.array(alone, documents.type)[0].as_py()), text


def _alone(documents: Documents, text: bytes) -> list[Any] | Fault:
    """The document as it is read alone, in a list, or its fault."""
    try:
        return [documents.value_of(text)]
    except Refused as error:
        return error.fault
