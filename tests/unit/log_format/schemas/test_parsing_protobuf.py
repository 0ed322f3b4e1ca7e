"""Protobuf's texts: what is understood, as ``protoc`` does, what is the same schema, and what is refused."""

from __future__ import annotations

import base64
import time
from random import Random
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from log_format.schemas.parsed import InvalidSchema
from log_format.schemas.parsing import parse
from log_format.schemas.parsing_protobuf import ProtobufSchema
from log_format.schemas.schema import SCHEMA_BYTES_MAX, Schema, SchemaType

BOTH = ["proto3", "proto2"]
PROTO3 = r"""
/* c */ syntax = "proto3"; // x
package a.b;
import "google/protobuf/timestamp.proto"; import public "google/protobuf/any.proto";
option java_package = "x.\"y"; option optimize_for = SPEED;
message M { option deprecated = true;
 reserved 100 to 110, 120; reserved "old";
 int32 a = 1 [json_name="AA", deprecated = true];
 optional string b = 2; repeated sint64 c = 3 [packed=false];
 map<string, N> d = 4; map<int32, google.protobuf.Any> e = 5;
 oneof o { string f = 6; N.P g = 7; }
 google.protobuf.Timestamp t = 8; E en = 9;
 message N { int32 x = 1; message P { bytes y = 1; } M back = 2; }
 enum E { option allow_alias = true; Z = 0; Y = 0 [deprecated=true]; X = -1; reserved 5 to 7; }
}
service S { rpc A (stream M) returns (M.N); rpc B (M) returns (stream M) { option deprecated = true; } }
"""
PROTO2 = r"""
syntax = "proto2";
message Q { required int32 a = 1 [default = -5]; optional group G = 2 { optional string s = 1 [default = "a\"b"]; }
 optional bytes by = 3 [default = "\001\xff"]; optional double d = 4 [default = -inf]; optional float fl=7 [default=1.5];
 optional E e = 5 [default = B]; enum E { A = 1; B = 2; }
 extensions 100 to 199, 500 to max; extend Q { optional int32 ext = 120; } repeated int32 p = 6 [packed = true]; }
extend Q { repeated string more = 121; }
"""
PROTO3_BY_PROTOC = (
    "CgdjLnByb3RvEgNhLmIaH2dvb2dsZS9wcm90b2J1Zi90aW1lc3RhbXAucHJvdG8aGWdvb2dsZS9wcm90b2J1Zi9hbnkucHJvdG8ihAQKAU0SEQ"
    "oBYRgBIAEoBUICGAFSAkFBEhEKAWIYAiABKAlIAVIBYogBARIQCgFjGAMgAygSQgIQAFIBYxIbCgFkGAQgAygLMg0uYS5iLk0uREVudHJ5UgFk"
    "EhsKAWUYBSADKAsyDS5hLmIuTS5FRW50cnlSAWUSDgoBZhgGIAEoCUgAUgFmEhoKAWcYByABKAsyCi5hLmIuTS5OLlBIAFIBZxIoCgF0GAggAS"
    "gLMhouZ29vZ2xlLnByb3RvYnVmLlRpbWVzdGFtcFIBdBIYCgJlbhgJIAEoDjIILmEuYi5NLkVSAmVuGj4KBkRFbnRyeRIQCgNrZXkYASABKAlS"
    "A2tleRIeCgV2YWx1ZRgCIAEoCzIILmEuYi5NLk5SBXZhbHVlOgI4ARpKCgZFRW50cnkSEAoDa2V5GAEgASgFUgNrZXkSKgoFdmFsdWUYAiABKA"
    "syFC5nb29nbGUucHJvdG9idWYuQW55UgV2YWx1ZToCOAEaQAoBThIMCgF4GAEgASgFUgF4EhoKBGJhY2sYAiABKAsyBi5hLmIuTVIEYmFjaxoR"
    "CgFQEgwKAXkYASABKAxSAXkiLwoBRRIFCgFaEAASCQoBWRAAGgIIARIOCgFYEP///////////wEaAhABIgQIBRAHOgIYAUIDCgFvQgQKAl9iSg"
    "QIZBBvSgQIeBB5UgNvbGQyOAoBUxIXCgFBEgYuYS5iLk0aCC5hLmIuTS5OKAESGgoBQhIGLmEuYi5NGgYuYS5iLk0iA4gCATABQggKBHguInlI"
    "AVABYgZwcm90bzM="
)
"""What ``protoc`` 5.27 makes of it: a ``FileDescriptorProto``."""
PROTO2_BY_PROTOC = (
    "CgdkLnByb3RvIugBCgFREhAKAWEYASACKAU6Ai01UgFhEhIKAWcYAiABKAoyBC5RLkdSAWcSGAoCYnkYAyABKAw6CFwwMDFcMzc3UgJieRISCg"
    "FkGAQgASgBOgQtaW5mUgFkEhMKAmZsGAcgASgCOgMxLjVSAmZsEhUKAWUYBSABKA4yBC5RLkU6AUJSAWUSEAoBcBgGIAMoBUICEAFSAXAaFgoB"
    "RxIRCgFzGAEgASgJOgNhImJSAXMiEQoBRRIFCgFBEAESBQoBQhACKgUIZBDIASoJCPQDEICAgIACMhQKA2V4dBICLlEYeCABKAVSA2V4dDoWCg"
    "Rtb3JlEgIuURh5IAMoCVIEbW9yZQ=="
)


def _parsed(text: str, *references: tuple[str, str]) -> ProtobufSchema:
    parsed = parse(Schema(text=text, type=SchemaType.PROTOBUF), references)
    assert isinstance(parsed, ProtobufSchema)
    return parsed


def _in_proto3(members: str) -> str:
    return f'syntax = "proto3"; message M {{ {members} }}'


def _without_json_names(message: Any) -> Any:
    message.name = ""
    waiting = list(message.message_type)
    for field in message.extension:
        field.ClearField("json_name")
    for each in waiting:
        waiting.extend(each.nested_type)
        for field in (*each.field, *each.extension):
            field.ClearField("json_name")
    return message


@pytest.mark.parametrize(
    ("text", "by_protoc"), [(PROTO3, PROTO3_BY_PROTOC), (PROTO2, PROTO2_BY_PROTOC)], ids=["proto3", "proto2"]
)
def test_descriptors_are_those_of_protoc(text: str, by_protoc: str) -> None:
    """Every construct of the language gives the descriptor that Protobuf's own compiler makes, but for names that it derives."""
    theirs = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(by_protoc))
    assert _without_json_names(_parsed(text).file) == _without_json_names(theirs)


@pytest.mark.parametrize(
    ("text", "by_protoc"), [(PROTO3, PROTO3_BY_PROTOC), (PROTO2, PROTO2_BY_PROTOC)], ids=["proto3", "proto2"]
)
def test_a_descriptor_in_base64_is_a_schema(text: str, by_protoc: str) -> None:
    """Confluent's client for Python registers descriptors: they are the same schema as the text, normalized."""
    assert _parsed(by_protoc).normalized == _parsed(text).normalized


@pytest.mark.parametrize("text", [PROTO3, PROTO2], ids=BOTH)
def test_canonical_texts_are_their_own(text: str) -> None:
    """Canonical and normalized texts are schemas that mean the same; written again they are the same text."""
    parsed = _parsed(text)
    canonical, normalized = _parsed(parsed.canonical), _parsed(parsed.normalized)
    assert canonical.canonical == parsed.canonical
    assert canonical.descriptor_set == parsed.descriptor_set
    assert canonical.normalized == normalized.normalized == parsed.normalized


def test_layout_means_nothing_and_order_only_unless_normalized() -> None:
    """Comments and white space make no other schema; the order of fields and ways to name a type do, unless normalized."""
    one = _parsed('syntax="proto3"; package p; message M { int32 a = 1; N b = 2; } message N {}')
    spaced = _parsed(
        'syntax = "proto3"; package p;\n// text\nmessage M { int32 a = 1; /* b */ N b = 2; }\nmessage N {}'
    )
    turned = _parsed('syntax="proto3"; package p; message M { .p.N b = 2; int32 a = 1; } message N {}')
    assert one.canonical == spaced.canonical
    assert turned.canonical != one.canonical
    assert turned.normalized == one.normalized


def test_messages_keep_their_order() -> None:
    """Programs count messages, so that another order is another schema."""
    one, other = _parsed("message A {} message B {}"), _parsed("message B {} message A {}")
    assert one.normalized != other.normalized
    assert (one.message_name([0]), one.message_name([1])) == ("A", "B")


def test_messages_are_named_by_indexes() -> None:
    """Confluent's indexes lead to a message within messages; what leads nowhere is an error."""
    parsed = _parsed("package p; message A { message B {} message C { message D {} } }")
    assert parsed.message_name([0]) == "p.A"
    assert parsed.message_name([0, 1, 0]) == "p.A.C.D"
    for wrong in ([], [1], [0, 2], [0, -1]):
        with pytest.raises(LookupError):
            parsed.message_name(wrong)


def test_references_and_known_files_are_linked() -> None:
    """Imports are references by their name, Protobuf's own files or Confluent's; the set of descriptors has what is used."""
    other = (
        'syntax = "proto3"; package o; import "google/protobuf/timestamp.proto";'
        " message Other { Inner i = 1; message Inner { google.protobuf.Timestamp t = 1; } }"
    )
    parsed = _parsed(
        'syntax = "proto3"; import "other.proto"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";'
        " message M { o.Other a = 1; confluent.type.Decimal b = 2 [(confluent.field_meta).doc = 'text']; }",
        ("other.proto", other),
        ("unused.proto", 'syntax = "proto3"; message Unused {}'),
    )
    names = [file.name for file in descriptor_pb2.FileDescriptorSet.FromString(parsed.descriptor_set).file]
    assert names.index("google/protobuf/timestamp.proto") < names.index("other.proto") < len(names) - 1
    assert "unused.proto" not in names
    pool = descriptor_pool.DescriptorPool()
    for file in parsed.files:
        pool.AddSerializedFile(file.SerializeToString())
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("M")).FromString(b"\x0a\x04\x0a\x02\x0a\x00")
    assert message.a.i.HasField("t")


def _in_edition(field: str) -> str:
    return f'edition = "2023"; message M {{ {field} }}'


INVALID = [
    ("", "", "empty"),
    ("message M {", "line 1, column 12", "found 'the end'"),
    ("message M { int32 a 1; }", "line 1, column 21", "Expected '='"),
    ("\n\nmessage M { optional int32 a = 1 }", "line 3, column 34", "Expected ';'"),
    ("message M ?", "line 1, column 11", "'?' begins no word"),
    ('syntax = "proto4";', "line 1, column 10", "neither proto2 nor proto3"),
    ('edition = "2022";', "line 1, column 11", "Editions are 2023 and 2024"),
    ("option features.field_presence = IMPLICIT;", "line 1, column 8", "Only editions"),
    (_in_edition("optional int32 a = 1;"), "line 1, column 31", "no label 'optional'"),
    (_in_edition("required int32 a = 1;"), "line 1, column 31", "no label 'required'"),
    (_in_edition("repeated group G = 1 {}"), "line 1, column 40", "no groups"),
    (_in_edition("int32 a = 1 [features.nonsense = A];"), "line 1, column 44", "no feature 'nonsense' here"),
    (_in_edition("int32 a = 1 [features.enum_type = OPEN];"), "line 1, column 44", "no feature 'enum_type' here"),
    (_in_edition("int32 a = 1 [features.field_presence = OPEN];"), "line 1, column 70", "no value of the option"),
    (_in_edition("int32 a = 1 [features.enforce_naming_style = STYLE2024];"), "line 1, column 44", "no feature"),
    (_in_edition("repeated int32 a = 1 [features.field_presence = IMPLICIT];"), "M", "field_presence"),
    (_in_edition("int32 a = 1 [features.repeated_field_encoding = PACKED];"), "M", "is not repeated"),
    (_in_edition("repeated string a = 1 [features.repeated_field_encoding = PACKED];"), "M", "packed encoding"),
    (_in_edition("repeated int32 a = 1 [packed = true];"), "M", "the option packed"),
    (_in_edition("int32 a = 1 [features.message_encoding = DELIMITED];"), "M", "is no message"),
    (_in_edition("int32 a = 1 [features.utf8_validation = NONE];"), "M", "is no text"),
    (
        _in_edition("int32 a = 1 [features.field_presence = IMPLICIT, default = 1];"),
        "M",
        "implicit presence and a default",
    ),
    (_in_edition('reserved "a"; int32 b = 1;'), "line 1, column 40", "Expected"),
    ('import "nowhere.proto";', "import 'nowhere.proto'", "no such file"),
    ('import "/etc/hostname";', "import '/etc/hostname'", "no such file"),
    ('import "../../etc/hostname";', "import '../../etc/hostname'", "no such file"),
    ("option nonsense = 1;", "line 1, column 8", "no option 'nonsense'"),
    ("option java_package = 1;", "line 1, column 23", "Expected a text"),
    ("package a; package b;", "line 1, column 20", "package already"),
    ("cGFja2FnZQ==", "", "descriptor in base64"),
    (_in_proto3("int32 a = 0;"), "line 1, column 42", "from 1 to"),
    (_in_proto3("int32 a = 19000;"), "line 1, column 42", "19000"),
    (_in_proto3("int32 a = 1; int32 b = 1;"), "", "duplicate field number"),
    (_in_proto3("int32 a = 1; int32 a = 2;"), "", "duplicate field name"),
    (_in_proto3("N a = 1;"), "", "couldn't resolve name 'N'"),
    (_in_proto3("required int32 a = 1;"), "", "cannot be required"),
    (_in_proto3("reserved 1 to 3; int32 a = 2;"), "M", "number 2"),
    (_in_proto3('reserved "a"; int32 a = 2;'), "M", "'a' is reserved"),
    (_in_proto3("reserved 1 to 3, 3 to 4;"), "M", "overlap at 3"),
    (_in_proto3("reserved 3 to 1;"), "line 1, column 41", "ends before"),
    (_in_proto3("map<double, int32> a = 1;"), "line 1, column 36", "keys of a map"),
    (_in_proto3("repeated map<int32, int32> a = 1;"), "line 1, column 41", "no label"),
    (_in_proto3("oneof o { repeated int32 a = 1; }"), "line 1, column 42", "no label"),
    (_in_proto3("oneof o { }"), "", "oneof"),
    (_in_proto3("enum E { A = 1; }"), "", "must be zero"),
    (_in_proto3("enum E { A = 0; B = 0; }"), "E", "allow_alias"),
    ('message M { optional int32 a = 1 [default = "\\U99999999"]; }', "line 1, column 45", "no character"),
    ("message M { optional int32 a = 1 [default = x]; }", "", "default"),
]


@pytest.mark.parametrize(("text", "place", "said"), INVALID)
def test_errors_say_where_and_what(text: str, place: str, said: str) -> None:
    """A text that is no Protobuf, or that asks for a file that is not given, is refused; no file is read."""
    with pytest.raises(InvalidSchema) as refused:
        _parsed(text)
    assert said in refused.value.detail
    assert refused.value.place == place


def test_files_that_import_each_other_are_refused() -> None:
    """A circle of imports has no order, however it is closed."""
    with pytest.raises(InvalidSchema, match="circle"):
        _parsed('import "a";', ("b", 'import "a";'), ("a", 'import "b";'))


def test_an_error_of_a_reference_names_it() -> None:
    """Whoever registers a schema learns which of its references is wrong."""
    with pytest.raises(InvalidSchema, match=r"reference 'other\.proto': "):
        _parsed("message M {}", ("other.proto", "mesage M {}"))


@pytest.mark.parametrize("by_protoc", [PROTO3_BY_PROTOC, PROTO2_BY_PROTOC], ids=BOTH)
def test_a_damaged_descriptor_is_a_schema_or_invalid(by_protoc: str) -> None:
    """Whatever bytes of a descriptor change, it is understood or refused; what is understood has a text that is, too."""
    random = Random(1)
    outcomes = set()
    for _ in range(600):
        damaged = bytearray(base64.b64decode(by_protoc))
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(damaged))
            damaged[at] = random.choice([random.randrange(256), (damaged[at] + 1) % 256, (damaged[at] - 1) % 256])
        try:
            parsed = _parsed(base64.b64encode(damaged).decode())
        except InvalidSchema:
            outcomes.add("invalid")
        else:
            outcomes.add("a schema")
            assert _parsed(parsed.canonical).canonical == parsed.canonical
    assert outcomes == {"invalid", "a schema"}


HOSTILE = {
    "many brackets": "{" * SCHEMA_BYTES_MAX,
    "deep messages": "message M {" * 50_000 + "}" * 50_000,
    "deep options": "option (a) = " + "{" * 100_000 + "}" * 100_000 + ";",
    "an open comment": "/*" * 500_000,
    "an open text": '"' + "a" * 1_000_000,
    "long numbers": "message M { optional int32 a = " + "9" * 100_000 + "; }",
    "names that multiply": "package " + "a" * 300_000 + ";" + "".join(f"message M{at} {{}}" for at in range(30_000)),
    "nested names that multiply": "".join(f"message {'a' * 500} {{" for _ in range(31))
    + "".join(f"message a{at}{{}}" for at in range(40_000))
    + "}" * 31,
    "many ranges": "message M { reserved " + ", ".join(str(2 * at + 1) for at in range(100_000)) + ", 1; }",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_take_bounded_time(text: str) -> None:
    """A text that was made to take long, or to exhaust the stack, is refused within seconds."""
    began = time.monotonic()
    with pytest.raises(InvalidSchema):
        _parsed(text)
    assert time.monotonic() - began < 20


def test_many_fields_are_no_harm() -> None:
    """The most fields that a text can have are understood, and written again."""
    messages = ("".join(f"int32 f{number}={number};" for number in range(1, 1_001)) for _ in range(50))
    text = 'syntax="proto3";' + "".join(f"message M{index}{{{fields}}}" for index, fields in enumerate(messages))
    assert SCHEMA_BYTES_MAX * 0.7 < len(text) < SCHEMA_BYTES_MAX
    parsed = _parsed(text)
    assert sum(len(message.field) for message in parsed.file.message_type) == 50_000
    assert _parsed(parsed.canonical).canonical == parsed.canonical


def test_a_message_with_too_many_fields_is_refused() -> None:
    """A message that no program could hold is refused, and not fallen over."""
    fields = "".join(f"int32 f{number}={number};" for number in (*range(1, 19_000), *range(20_000, 40_000)))
    with pytest.raises(InvalidSchema, match="maximum size"):
        _parsed(_in_proto3(fields))


EDITION = """edition = "YEAR"; package p;
option features = { repeated_field_encoding: EXPANDED, utf8_validation: NONE };
message M {
  int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; N c = 3 [features.field_presence = LEGACY_REQUIRED];
  repeated int32 d = 4; repeated E e = 5 [features.repeated_field_encoding = PACKED, json_name = "other"];
  N f = 6 [features.message_encoding = DELIMITED]; N g = 7; map<string, N> h = 8;
  oneof o { string i = 9; N j = 10 [features = { message_encoding: DELIMITED }]; }
  reserved foo, bar; reserved 100 to 200; string reservedly = 11 [features.utf8_validation = VERIFY];
  message Inner { option features.json_format = LEGACY_BEST_EFFORT; string x = 1 [default = "y"]; }
}
message N { int64 q = 1; repeated N r = 2; }
enum E { option features.enum_type = CLOSED; A = 0; B = 1; reserved C; }
"""


@pytest.mark.parametrize("year", ["2023", "2024"])
def test_editions_are_linked_with_their_features(year: str) -> None:
    """What the features say is what Google's library says of the linked file; the canonical text and the descriptor mean the
    same."""
    parsed = _parsed(EDITION.replace("YEAR", year))
    assert _parsed(parsed.canonical).canonical == parsed.canonical
    assert _parsed(base64.b64encode(parsed.file.SerializeToString()).decode()).normalized == parsed.normalized
    pool = descriptor_pool.DescriptorPool()
    for file in parsed.files:
        pool.AddSerializedFile(file.SerializeToString())
    told = {}
    for message in parsed.plain_files[-1].message_type:
        for field in message.field:
            theirs = pool.FindMessageTypeByName(f"p.{message.name}").fields_by_number[field.number]
            is_explicit = field.proto3_optional or field.HasField("oneof_index") or field.label == field.LABEL_REQUIRED
            ours = (
                field.type,
                field.options.packed,
                field.label == field.LABEL_REQUIRED,
                is_explicit or (field.label != field.LABEL_REPEATED and bool(field.type_name)),
            )
            assert ours == (theirs.type, theirs.is_packed, theirs.is_required, theirs.has_presence), field.name
            told[field.name] = ours
    assert [told["c"][2], told["e"][1], told["d"][1], told["b"][3]] == [True, True, False, False]
    assert told["f"][0] == told["j"][0] == descriptor_pb2.FieldDescriptorProto.TYPE_GROUP
    assert told["h"][0] == descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE


def test_symbols_of_edition_2024_say_who_may_use_them() -> None:
    """``export`` and ``local`` are kept, and so is an import for options only, which nobody here needs."""
    text = 'edition = "2024"; import option "nowhere.proto"; export message M { local enum E { A = 0; } E e = 1; }'
    canonical = _parsed(text).canonical
    assert "export message M {" in canonical
    assert "local enum E {" in canonical
    assert 'import option "nowhere.proto";' in canonical
    with pytest.raises(InvalidSchema):
        _parsed(text.replace("2024", "2023"))
