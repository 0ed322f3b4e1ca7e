"""Protobuf's texts for property tests: a message and a change of it, and bytes of it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

SCALARS = (
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "bool",
    "string",
    "bytes",
    "fixed32",
    "float",
    "double",
    "E",
)
_TYPES = (*SCALARS, "M", "N", "map<string, int32>", "map<int32, N>")


@st.composite
def text_and_change(draw: st.DrawFn) -> tuple[str, str]:
    """A file with a message of up to five fields, some in a oneof, and the same with some fields changed."""
    old, new = {}, {}
    for number in range(1, draw(st.integers(1, 5)) + 1):
        field = (
            draw(st.sampled_from(["", "", "repeated ", "optional "])),
            draw(st.sampled_from(_TYPES)),
            draw(st.booleans()),
        )
        match draw(st.integers(0, 9)):
            case 0:
                new[number] = field
            case 1:
                old[number] = field
            case 2:
                old[number], new[number] = field, (field[0], draw(st.sampled_from(_TYPES)), draw(st.booleans()))
            case _:
                old[number] = new[number] = field
    return _text(old), _text(new)


def _text(fields: dict[int, Any]) -> str:
    plain, exclusive = [], []
    for number, (label, kind, is_exclusive) in fields.items():
        if is_exclusive and "<" not in kind:
            exclusive.append(f"{kind} f{number} = {number};")
        else:
            plain.append(f"{'' if '<' in kind else label}{kind} f{number} = {number};")
    oneof = f"oneof o {{ {' '.join(exclusive)} }}" if exclusive else ""
    return f'syntax = "proto3"; message M {{ {" ".join(plain)} {oneof} }} message N {{ int32 x = 1; }} enum E {{ Z = 0; Y = 1; }}'
