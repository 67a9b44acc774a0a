"""Layer 2: the three messages from XML and to XML, and the XML that is refused."""

from __future__ import annotations

import re
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.reasons import Reason
from gateway.protocols.wolpertinger import codec
from gateway.protocols.wolpertinger.codec import MAX_NAMESPACES, SALVAGED_CHARACTERS, decode, encode
from gateway.protocols.wolpertinger.frames import (
    MAX_OBJECTS,
    NAMESPACE,
    BadMessage,
    Call,
    CallResponse,
    Message,
    Object,
    RemoteError,
    RemoteErrorCode,
)
from gateway.protocols.wolpertinger.objects import MAX_LISTS
from tests.refusals import reason_of
from tests.unit.core.subjects import subjects
from tests.unit.protocols.wolpertinger.talk import CALL_ID, text

UPPER_CALL_ID = CALL_ID.upper()

EXAMPLE_CALL = f"""
    <RemoteMethodCall>
        <ComponentName>Core</ComponentName>
        <CallId>{UPPER_CALL_ID}</CallId>
        <MethodName>testMethod1</MethodName>
        <Parameters>
            <object type="string">This is a string-example</object>
            <object type="boolean">true</object>
        </Parameters>
    </RemoteMethodCall>
""".strip()
EXAMPLE_RESPONSE = f"""
    <RemoteMethodResponse>
        <ComponentName>Core</ComponentName>
        <CallId>{UPPER_CALL_ID}</CallId>
        <ResponseValue>
            <object type="boolean">true</object>
        </ResponseValue>
    </RemoteMethodResponse>
""".strip()
EXAMPLE_ERROR = f"""
    <RemoteError>
        <ComponentName>Core</ComponentName>
        <ErrorCode>1</ErrorCode>
        <CallId>{UPPER_CALL_ID}</CallId>
    </RemoteError>
""".strip()

PARAMETERS = (text("This is a string-example"), Object("boolean", True))
EXAMPLES: list[tuple[str, Message]] = [
    (EXAMPLE_CALL, Call("Core", UPPER_CALL_ID, "testMethod1", PARAMETERS)),
    (EXAMPLE_RESPONSE, CallResponse("Core", UPPER_CALL_ID, Object("boolean", True))),
    (EXAMPLE_ERROR, RemoteError("Core", 1, UPPER_CALL_ID)),
]


def within_namespace(xml: str, namespace: str = NAMESPACE) -> str:
    head, rest = xml.split(">", 1)
    return f'{head} xmlns="{namespace}">{rest}'


@pytest.mark.parametrize(("xml", "message"), EXAMPLES)
def test_the_examples_of_the_text_are_read_with_the_namespace_and_without(xml: str, message: Message) -> None:
    assert decode(xml.encode()) == message
    assert decode(within_namespace(xml).encode()) == message
    assert decode(f'<?xml version="1.0" encoding="utf-8"?>\n{xml}'.encode()) == message
    assert decode(b"\xef\xbb\xbf" + xml.encode()) == message


def test_the_error_codes_are_those_of_the_text() -> None:
    codes = [100, 200, 201, 202, 203, 300, 301, 302, 303, 304, 305, 306, 400, 401, 500, 501, 502]
    assert [int(code) for code in RemoteErrorCode] == codes


def test_what_is_sent_has_the_namespace() -> None:
    assert (
        encode(RemoteError("Core", 304, CALL_ID))
        == (
            f'<RemoteError xmlns="{NAMESPACE}"><ComponentName>Core</ComponentName>'
            f"<ErrorCode>304</ErrorCode><CallId>{CALL_ID}</CallId></RemoteError>"
        ).encode()
    )


def test_a_response_without_a_value_is_one() -> None:
    response = CallResponse("Core", CALL_ID)
    assert b"<ResponseValue></ResponseValue>" in encode(response)
    assert decode(encode(response)) == response


def test_comments_and_character_data_are_read_as_text() -> None:
    xml = EXAMPLE_CALL.replace("This is a", "This <!-- hm --><![CDATA[<is> <!DOCTYPE]]> a")
    call = decode(xml.encode())
    assert isinstance(call, Call)
    assert call.parameters[0] == text("This <is> <!DOCTYPE a string-example")


def swapped(xml: str, one: str, other: str) -> str:
    lines = xml.splitlines()
    first, second = (next(at for at, line in enumerate(lines) if f"<{name}>" in line) for name in (one, other))
    lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines)


BROKEN = [
    pytest.param("", 301, id="nothing"),
    pytest.param("hello", 301, id="no XML"),
    pytest.param(EXAMPLE_CALL[:-1], 301, id="cut off"),
    pytest.param(EXAMPLE_CALL + EXAMPLE_CALL, 301, id="two roots"),
    pytest.param(EXAMPLE_CALL.replace("Core", "\x01"), 301, id="a character that XML does not have"),
    pytest.param(EXAMPLE_CALL.replace("Core", "&core;"), 301, id="an entity nobody declared"),
    pytest.param("<Hello/>", 302, id="an unknown root"),
    pytest.param(f'<Hello xmlns="{NAMESPACE}"/>', 302, id="an unknown root in the namespace"),
    pytest.param(EXAMPLE_CALL.replace("RemoteMethodCall", "remotemethodcall"), 302, id="a root in another case"),
    pytest.param(within_namespace(EXAMPLE_CALL, "http://example.org"), 301, id="a foreign namespace"),
    pytest.param(
        within_namespace(EXAMPLE_CALL).replace("<Parameters>", '<Parameters xmlns="">'), 301, id="namespaces mixed"
    ),
    pytest.param(swapped(EXAMPLE_CALL, "CallId", "MethodName"), 301, id="a call in another order"),
    pytest.param(swapped(EXAMPLE_RESPONSE, "ComponentName", "CallId"), 301, id="a response in another order"),
    pytest.param(swapped(EXAMPLE_ERROR, "ErrorCode", "CallId"), 301, id="an error in another order"),
    pytest.param(EXAMPLE_CALL.replace("<ComponentName>Core</ComponentName>", ""), 301, id="no component"),
    pytest.param(EXAMPLE_CALL.replace("<MethodName>testMethod1</MethodName>", ""), 301, id="no method"),
    pytest.param(EXAMPLE_CALL.replace("testMethod1", ""), 301, id="a method without a name"),
    pytest.param(EXAMPLE_CALL.replace(UPPER_CALL_ID, "7"), 301, id="a CallId that is no UUID"),
    pytest.param(EXAMPLE_CALL.replace(UPPER_CALL_ID, f"{{{UPPER_CALL_ID}}}"), 301, id="a CallId in braces"),
    pytest.param(EXAMPLE_CALL.replace("</MethodName>", "</MethodName><More/>"), 301, id="an element more"),
    pytest.param(EXAMPLE_CALL.replace("<RemoteMethodCall>", '<RemoteMethodCall a="b">'), 301, id="an attribute"),
    pytest.param(EXAMPLE_CALL.replace('type="string"', ""), 301, id="an object without a type"),
    pytest.param(EXAMPLE_CALL.replace('type="string"', 'type="string" a="b"'), 301, id="an object with more"),
    pytest.param(EXAMPLE_CALL.replace("<Parameters>", "<Parameters>text"), 301, id="text between objects"),
    pytest.param(EXAMPLE_RESPONSE.replace("</object>", '</object><object type="guid"/>'), 301, id="two values"),
    pytest.param(EXAMPLE_ERROR.replace(">1<", ">one<"), 301, id="a code in words"),
    pytest.param(EXAMPLE_ERROR.replace(">1<", ">2147483648<"), 301, id="a code of 33 bits"),
    pytest.param(EXAMPLE_CALL.replace(">true<", ">perhaps<"), 305, id="a value that is not of its type"),
    pytest.param(EXAMPLE_CALL.replace(">true<", "><b/>true<"), 305, id="elements in a value"),
    pytest.param(EXAMPLE_RESPONSE.replace(">true<", ">perhaps<"), 401, id="a response that is not of its type"),
]


@pytest.mark.parametrize(("xml", "code"), BROKEN)
def test_what_the_schema_does_not_know_has_its_code(xml: str, code: int) -> None:
    with pytest.raises(BadMessage) as raised:
        decode(xml.encode())
    assert (raised.value.code, raised.value.reason, raised.value.can_continue) == (code, Reason.BAD_XML, True)


def test_whom_to_answer_is_salvaged_from_a_message_out_of_order() -> None:
    with pytest.raises(BadMessage) as raised:
        decode(swapped(EXAMPLE_CALL, "CallId", "MethodName").encode())
    assert (raised.value.component, raised.value.call_id, raised.value.answers) == ("Core", UPPER_CALL_ID, False)


def test_nothing_is_salvaged_that_is_no_call_id_and_no_more_than_a_name() -> None:
    xml = EXAMPLE_RESPONSE.replace(UPPER_CALL_ID, "no id").replace("Core", "C" * 1000)
    with pytest.raises(BadMessage) as raised:
        decode(xml.encode())
    assert (raised.value.component, raised.value.call_id) == ("C" * SALVAGED_CHARACTERS, "")
    assert raised.value.answers


def test_what_a_refusal_tells_people_quotes_nothing() -> None:
    with pytest.raises(BadMessage) as raised:
        decode(EXAMPLE_CALL.replace("This is", "secret <b>").encode())
    assert "secret" not in str(raised.value)


LAUGHS = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
DOCTYPES = [
    pytest.param("<!DOCTYPE x>", id="an empty one"),
    pytest.param(f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]>', id="a billion laughs"),
    pytest.param('<!DOCTYPE x [<!ENTITY l9 SYSTEM "file:///etc/passwd">]>', id="a file"),
    pytest.param('<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">', id="a foreign DTD"),
    pytest.param('<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x"> %p;]>', id="a parameter entity"),
    pytest.param('<?xml version="1.0"?>\n<!-- a --> <?b?>\n<!DOCTYPE x>', id="behind comments"),
    pytest.param('<!-- <!DOCTYPE y> --><!DOCTYPE x [<!ENTITY l9 "ha">]>', id="behind one in a comment"),
    pytest.param("\ufeff<!DOCTYPE x>", id="behind a byte order mark"),
]


@pytest.mark.parametrize("prolog", ["<!-- <!DOCTYPE x>", "<?a <!DOCTYPE x>", "<!doctype x><!-- <!DOCTYPE -->"])
def test_a_prolog_that_is_none_is_no_xml(prolog: str) -> None:
    with pytest.raises(BadMessage) as raised:
        decode(prolog.encode())
    assert raised.value.detail == "not well-formed"


@pytest.mark.parametrize("doctype", DOCTYPES)
@pytest.mark.parametrize("place", ["Core", "string"], ids=["in text", "in an attribute"])
def test_a_doctype_is_refused_before_anything_is_expanded(doctype: str, place: str) -> None:
    xml = (doctype + EXAMPLE_CALL.replace(place, "&l9;")).encode()
    tracemalloc.start()
    try:
        with pytest.raises(BadMessage) as raised:
            decode(xml)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert raised.value.detail == "a DOCTYPE"
    assert peak < 100_000


def test_a_number_with_more_zeros_in_front_than_python_takes_is_no_error_of_ours() -> None:
    with pytest.raises(BadMessage) as raised:
        decode(re.sub(r"<ErrorCode>\d+<", f"<ErrorCode>{'0' * 5_000}1<", EXAMPLE_ERROR).encode())
    assert raised.value.code == RemoteErrorCode.INVALID_XML


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "cp037"])
def test_no_other_encoding_can_hide_anything(encoding: str) -> None:
    xml = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE x>{EXAMPLE_CALL}'
    with pytest.raises(BadMessage) as raised:
        decode(xml.encode(encoding))
    assert raised.value.code == RemoteErrorCode.INVALID_XML


def test_a_declaration_of_another_encoding_changes_nothing() -> None:
    xml = f'<?xml version="1.0" encoding="iso-8859-1"?>{EXAMPLE_ERROR.replace("Core", "Käse")}'
    assert decode(xml.encode()) == RemoteError("Käse", 1, UPPER_CALL_ID)
    with pytest.raises(BadMessage) as raised:
        decode(xml.encode("iso-8859-1"))
    assert raised.value.code == RemoteErrorCode.INVALID_XML


HUGE = [
    pytest.param("<a>" * 40_000 + "</a>" * 40_000, 301, id="depth"),
    pytest.param("<a" + "".join(f' a{n}="x"' for n in range(60_000)) + "/>", 302, id="many attributes"),
    pytest.param(f'<a a="{"x" * 700_000}"/>', 302, id="a large attribute"),
    pytest.param(f"<a>{'<b/>' * 150_000}</a>", 302, id="many elements"),
    pytest.param(f"<{'a' * 700_000}/>", 301, id="a long name"),
    pytest.param("<RemoteError>" + "<CallId/>" * 70_000 + "</RemoteError>", 301, id="many of ours"),
]


@pytest.mark.parametrize(("xml", "code"), HUGE)
def test_what_is_huge_is_refused_like_anything_else(xml: str, code: int) -> None:
    with pytest.raises(BadMessage) as raised:
        decode(xml.encode())
    assert raised.value.code == code


def nested(lists: int) -> str:
    inner = '<object type="list">' * lists + "</object>" * lists
    return EXAMPLE_CALL.replace('<object type="boolean">true</object>', inner)


def test_lists_nest_as_deep_as_the_limit() -> None:
    call = decode(nested(MAX_LISTS).encode())
    assert isinstance(call, Call)
    assert decode(encode(call)) == call
    with pytest.raises(BadMessage) as raised:
        decode(nested(MAX_LISTS + 1).encode())
    assert (raised.value.code, raised.value.call_id) == (RemoteErrorCode.INVALID_PARAMETERS, UPPER_CALL_ID)


def with_objects(number: int) -> bytes:
    """A response that is a list of so many objects less one, which is the list."""
    items = '<object type="int32">1</object>' * (number - 1)
    return EXAMPLE_RESPONSE.replace('"boolean">true', f'"list">{items}').encode()


def test_a_message_holds_as_many_objects_as_the_limit() -> None:
    response = decode(with_objects(MAX_OBJECTS))
    assert decode(encode(response)) == response
    with pytest.raises(BadMessage) as raised:
        decode(with_objects(MAX_OBJECTS + 1))
    assert raised.value.code == RemoteErrorCode.INVALID_RESPONSE


def test_more_objects_than_the_limit_are_not_sent() -> None:
    message = Call("Core", CALL_ID, "say", (Object("boolean", True),) * (MAX_OBJECTS + 1))
    assert reason_of(encode, message) is Reason.TOO_LARGE


def test_text_that_xml_cannot_hold_is_not_sent() -> None:
    for character in "\0\x0b\ufffe\ud800":
        message = Call("Core", CALL_ID, "say", (text(character),))
        assert reason_of(encode, message) is Reason.UNTRANSLATABLE


def test_a_value_that_is_not_of_its_type_is_not_sent() -> None:
    message = CallResponse("Core", CALL_ID, Object("int32", 1 << 31))
    assert reason_of(encode, message) is Reason.UNTRANSLATABLE


def test_the_schemas_are_of_one_mind() -> None:
    folder = Path(encode.__code__.co_filename).parent
    assert 'schemaLocation="messages.xsd"' in (folder / "protocol.xsd").read_text()
    assert f'targetNamespace="{NAMESPACE}"' in (folder / "protocol.xsd").read_text()


legal_text = st.text(
    st.characters(
        exclude_categories=["Cs"], exclude_characters=[*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"]
    ),
    max_size=20,
)
call_ids = st.uuids().map(str)
plain_objects = st.one_of(
    legal_text.map(lambda value: Object("string", value)),
    st.booleans().map(lambda value: Object("boolean", value)),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda value: Object("int32", value)),
    st.integers(-(1 << 63), (1 << 63) - 1).map(lambda value: Object("int64", value)),
    st.integers(0, (1 << 64) - 1).map(lambda value: Object("uint64", value)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: Object("double", value)),
    st.uuids().map(lambda value: Object("guid", str(value))),
    st.datetimes().map(lambda value: Object("dateTime", value.isoformat() + "Z")),
)
any_objects = st.recursive(
    plain_objects,
    lambda inner: st.lists(inner, max_size=3).map(lambda items: Object("list", tuple(items))),
    max_leaves=8,
)
any_messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Call, st.just("") | subjects(20), call_ids, subjects(20), st.lists(any_objects, max_size=4).map(tuple)),
    st.builds(CallResponse, legal_text, call_ids, st.none() | any_objects),
    st.builds(RemoteError, legal_text, st.integers(-(1 << 31), (1 << 31) - 1), st.just("") | call_ids),
)


@settings(deadline=None, max_examples=200)
@given(any_messages)
def test_what_is_encoded_is_decoded_as_it_was(message: Message) -> None:
    assert decode(encode(message)) == message


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60), st.sampled_from([xml.encode() for xml, _ in EXAMPLES]), st.integers(0, 500))
def test_any_bytes_are_read_or_refused(garbage: bytes, xml: bytes, at: int) -> None:
    for data in (garbage, xml[:at] + garbage, xml[:at] + garbage + xml[at:]):
        with suppress(BadMessage):
            decode(data)


@pytest.mark.parametrize(
    "xml",
    [
        EXAMPLE_CALL.replace("</Parameters>", '<object x="1"/>' * 4_000 + "</Parameters>"),
        EXAMPLE_CALL.replace("</Parameters>", '<object type="" x="1"/>' * 4_000 + "</Parameters>"),
        EXAMPLE_CALL.replace("</Parameters>", '<object type="x"/>text' * 50_000 + "</Parameters>"),
        EXAMPLE_CALL.replace("<RemoteMethodCall", "<RemoteMethodCall " + " ".join(f'a{n}=""' for n in range(4_000))),
        EXAMPLE_CALL.replace("<Parameters", "<Parameters " + " ".join(f'a{n}=""' for n in range(4_000))),
        EXAMPLE_CALL.replace("<object", "<object " + " ".join(f'a{n}=""' for n in range(4_000)) + " ", 1),
    ],
    ids=["no type", "an attribute more", "text", "attributes of a call", "of parameters", "of an object"],
)
def test_no_message_has_the_schema_write_down_thousands_of_faults(xml: str) -> None:
    """Each takes 30 µs of the edge's thread."""
    before = {name: len(schema.error_log) for name, (schema, _) in codec._MESSAGES.items()}
    with pytest.raises(BadMessage) as raised:
        decode(xml.encode())
    assert raised.value.code == RemoteErrorCode.INVALID_XML
    assert all(len(schema.error_log) <= before[name] + 5 for name, (schema, _) in codec._MESSAGES.items())


@pytest.mark.parametrize("around", ["RemoteMethodCall", "Parameters", 'object type="list"'])
def test_namespaces_around_objects_are_bounded_because_each_object_keeps_them(around: str) -> None:
    own = '<object type="mine"/>'

    def with_namespaces(number: int) -> bytes:
        declared = "".join(f' xmlns:n{at}="u"' for at in range(number))
        xml = EXAMPLE_CALL.replace("<Parameters>", f'<Parameters>{own}<object type="list">{own}</object>')
        return xml.replace(f"<{around}", f"<{around}{declared}").encode()

    decode(with_namespaces(MAX_NAMESPACES - 1))  # the prefix `xml` is always there, or our own namespace
    with pytest.raises(BadMessage) as raised:
        decode(with_namespaces(MAX_NAMESPACES + 1))
    assert raised.value.code == RemoteErrorCode.INVALID_PARAMETERS
