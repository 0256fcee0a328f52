"""A pickle that asks for anything but numpy's arrays must not get it."""

import codecs
import copyreg
import io
import os
import pickle
import pickletools
import struct

import numpy as np
import pytest

from builders.demo.cifar100 import python2_pickle
from builders.errors import BuildError
from builders.sources.readers import pickles
from tests.fuzz.harness import run_cases


def load(data):
    return pickles.load_pickle("Title", io.BytesIO(data), "place")


def refusal(data):
    with pytest.raises(BuildError) as caught:
        load(data)
    message = str(caught.value)
    assert message.startswith("Title: place ") and "Download the archive again" in message
    assert message.endswith(".")
    assert "\n" not in message
    return message


class Reduced:
    """Pickles as the call of a function."""

    def __init__(self, call, *args):
        self.call = call
        self.args = args

    def __reduce__(self):
        return self.call, self.args


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def marking(marker):
    """Python source and a shell command that leave a file behind."""
    return f"open({str(marker)!r}, 'w').close()", f"touch {marker}"


def hostile(marker):
    """Ways to run something while a pickle is loaded: name, pickle and the name that must be refused."""
    source, command = marking(marker)
    short, code = command.encode(), source.encode()
    binary = b"U" + bytes([len(short)]) + short
    yield "reduce, protocol 0", pickle.dumps(Reduced(os.system, command), 0), "posix.system"
    yield "reduce, protocol 2", pickle.dumps(Reduced(os.system, command), 2), "posix.system"
    yield "stack global, protocol 4", pickle.dumps(Reduced(os.system, command), 4), "posix.system"
    yield "stack global, protocol 5", pickle.dumps(Reduced(eval, source), 5), "builtins.eval"
    yield "Python 2's eval", b"\x80\x02c__builtin__\neval\n" + text(source) + b"\x85R.", "__builtin__.eval"
    yield "nested in a list", pickle.dumps({"data": [1, [Reduced(exec, source)]]}, 2), "__builtin__.exec"
    yield "as a key", b"\x80\x02}(cos\nsystem\n" + text(command) + b"\x85RK\x01u.", "os.system"
    yield "after a plain dictionary", b"\x80\x02}cos\nsystem\n" + binary + b"\x85R0.", "os.system"
    yield "instance by name", b"(S'" + short + b"'\nios\nsystem\n.", "os.system"
    yield "instance from the stack", b"(cos\nsystem\n" + binary + b"o.", "os.system"
    yield "new object", b"\x80\x02csubprocess\nPopen\n" + text(command) + b"\x85\x81.", "subprocess.Popen"
    yield (
        "new object by keywords",
        b"\x80\x04" + text("subprocess") + text("Popen") + b"\x93)}\x92.",
        "subprocess.Popen",
    )
    yield "attribute of a builtin", b"\x80\x04" + text("builtins") + text("getattr") + b"\x93.", "builtins.getattr"
    yield "dotted name", b"\x80\x04" + text("numpy") + text("ndarray.__class__") + b"\x93.", "numpy.ndarray.__class__"
    yield "numpy's own loader", b"\x80\x02cnumpy\nload\n" + binary + b"\x85R.", "numpy.load"
    yield (
        "dtype with code",
        b"\x80\x02cnumpy.core.multiarray\nscalar\n" + text(source) + b"\x85R.",
        "multiarray.scalar",
    )
    yield (
        "code as text",
        b"\x80\x02cbuiltins\nexec\nT" + struct.pack("<I", len(code)) + code + b"\x85R.",
        "builtins.exec",
    )


WAYS = [name for name, _, _ in hostile("anywhere")]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_pickle_asks_for_does_not_run(tmp_path, way):
    marker = tmp_path / "marker"
    data, refused = next((data, refused) for name, data, refused in hostile(marker) if name == way)
    assert refused in refusal(data)
    assert not marker.exists()


@pytest.mark.parametrize("way", ["reduce, protocol 0", "stack global, protocol 4", "instance by name"])
def test_the_same_pickles_run_in_the_standard_unpickler(tmp_path, way):
    """Otherwise the test above would pass with pickles that do nothing."""
    marker = tmp_path / "marker"
    data = next(data for name, data, _ in hostile(marker) if name == way)
    pickle.loads(data)
    assert marker.exists()


@pytest.mark.parametrize("opcode", [b"\x82\xf0", b"\x83\xf0\x00", b"\x84\xf0\x00\x00\x00"])
def test_an_extension_code_is_not_followed(opcode):
    copyreg.add_extension("os", "getpid", 0xF0)
    try:
        assert pickle.loads(b"\x80\x02" + opcode + b".") is os.getpid
        assert "the instruction EXT" in refusal(b"\x80\x02" + opcode + b")R.")
    finally:
        copyreg.remove_extension("os", "getpid", 0xF0)
        copyreg.clear_extension_cache()


@pytest.mark.parametrize("data", [b"\x80\x02U\x01aQ.", b"Psomething\n."])
def test_objects_outside_the_file_are_refused(data):
    assert "PERSID, which no dataset's pickle needs" in refusal(data)


def test_states_are_remembered_and_not_set():
    """BUILD fills an object's attributes; on what stands for a function it must change nothing."""
    value = load(b"\x80\x02}U\x01acnumpy\ndtype\n}U\x08__call__K\x01sbs.")["a"]
    assert value.state == {b"__call__": 1}


@pytest.mark.parametrize("cut", [0, 1, 2, 30, 200, -1])
def test_a_pickle_cut_short(cut):
    complete = python2_pickle({"data": np.zeros((2, 3072), np.uint8), "fine_labels": [1, 2]})
    assert "place cannot be read as a pickle" in refusal(complete[:cut])


@pytest.mark.parametrize("value", [[1], "text", 3])
def test_something_other_than_a_dictionary(value):
    assert "it has something other than a dictionary" in refusal(python2_pickle(value))
    assert "it has something other than a dictionary" in refusal(b"\x80\x02}K\x01K\x02s.")


SMALL = python2_pickle({"fine_labels": [3, 300], "data": np.arange(12, dtype=np.uint8).reshape(3, 4), "x": "y" * 300})


def test_python2_pickles_are_those_that_the_standard_unpickler_reads():
    read = pickle.loads(SMALL, encoding="latin1")  # as torchvision reads them
    assert read["fine_labels"] == [3, 300]
    assert np.array_equal(read["data"], np.arange(12).reshape(3, 4))
    assert read["data"].dtype == np.uint8
    assert read["x"] == "y" * 300
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(SMALL)}
    assert {"BINSTRING", "SHORT_BINSTRING", "GLOBAL", "REDUCE", "BUILD"} <= opcodes
    assert not {"BINUNICODE", "BINBYTES", "SHORT_BINBYTES", "STACK_GLOBAL", "FRAME"} & opcodes


def array_of(data):
    return pickles.byte_matrix(load(data)["a"])


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_arrays_that_python_3_pickled_are_read_too(protocol):
    """Up to protocol 2 bytes are a call that encodes text, and from protocol 5 on an array is its buffer."""
    array = np.arange(250, 262).astype(np.uint8).reshape(4, 3)
    assert np.array_equal(array_of(pickle.dumps({"a": array, b"b": [b"\xff\0"]}, protocol)), array)
    assert load(pickle.dumps({"a": array, b"b": [b"\xff\0"]}, protocol))["b"] == [b"\xff\0"]


@pytest.mark.parametrize(
    "args", [("a", "utf-16"), ("€", "latin1"), ("a",), (b"a", "latin1"), ("a", "latin1", "x"), ("a" * 9, "rot13")]
)
def test_text_is_encoded_as_python_3_asks_for_it_and_in_no_other_way(args):
    data = pickle.dumps({"a": Reduced(codecs.encode, *args)}, 4)
    assert "is not a pickle" in refusal(data) or "cannot be read as a pickle" in refusal(data)


def test_bytes_that_are_encoded_again_and_again_are_refused():
    """A text of a megabyte that is encoded a thousand times would be a gigabyte."""
    once = b"c_codecs\nencode\nh\x01X\x06\x00\x00\x00latin1\x86R"
    bomb = b"\x80\x02}X\x01\x00\x00\x00a](X\x00\x00\x10\x00" + b"x" * 2**20 + b"q\x01" + once * 1000 + b"es."
    assert "more than the pickle has" in refusal(bomb)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((2, 3), np.float32), "an array of f4"),
        (np.zeros((2, 3), np.int8), "an array of i1"),
        (np.zeros(6, np.uint8), r"an array of shape \(6,\) in 6 bytes"),
        (np.zeros((1, 2, 3), np.uint8), r"an array of shape \(1, 2, 3\) in 6 bytes"),
        (np.asfortranarray(np.zeros((2, 3), np.uint8)), "an array in column order"),
        ([[1, 2], [3, 4]], "no array"),
        (np.dtype("u1"), "no array"),
    ],
)
def test_other_arrays(value, words):
    with pytest.raises(ValueError, match=words):
        array_of(pickle.dumps({"a": value}, 3))


def test_a_shape_that_does_not_fit_the_bytes():
    data = pickle.dumps({"a": np.zeros((2, 3), np.uint8)}, 3)
    for shape in (b"K\x02K\x04\x86", b"K\x00K\x03\x86", b"J\xfe\xff\xff\xffJ\xfd\xff\xff\xff\x86"):
        with pytest.raises(ValueError, match="in 6 bytes"):
            array_of(data.replace(b"K\x02K\x03\x86", shape))


TWICE, NOT_NEEDED, KEY = "that is used twice", "which no dataset's pickle needs", "a dictionary with names as keys"
WORDS = {
    "doubled tuple as key": TWICE,
    "doubled tuple as key, by DUP": f"the instruction DUP, {NOT_NEEDED}",
    "doubled tuple as key, by MEMOIZE": TWICE,
    "doubled tuple, table entries written twice": NOT_NEEDED,
    "doubled list": TWICE,
    "deep tuple as key": KEY,
    "deep list": "more than 700,000 instr",
    "deep marks": "more than 700,000 instr",
    "deep calls": "a call for numpy.ndarray",
    "number of a million bytes": "a number of 7,999,999 bits",
    "number of two gigabytes": "a value of 2,147,483,647 bytes in",
    "number of minus one byte": "byte count < 0",
    "number of a million digits": "Exceeds the limit",
    "text of two gigabytes": "a value of 2,147,483,647 bytes",
    "text of minus one byte": "string4 byte count < 0",
    "bytes of an exabyte": "a value of 1,152,921,504,606,846,976 bytes",
    "bytes of three gigabytes": "a value of 3,221,225,472 bytes",
    "byte array of three gigabytes": "a value of 3,221,225,472 bytes",
    "buffer outside": NOT_NEEDED,
    "set of tuples": NOT_NEEDED,
    "too many instructions": "more than 700,000 instructions",
    "no instruction": "opcode",
    "nothing": "",
}
HARMLESS = {
    "table entry at 4 billion",
    "table entry at 4 billion, as text",
    "negative table entry",
    "frame of an exabyte",
    "frame of three gigabytes",
}


def test_bombs_are_refused_in_time_and_memory():
    """In a child with limits: the first, of 492 bytes, used to take 20 seconds."""
    outcomes = run_cases("tests.fuzz.targets.arrays:pickle")
    assert set(outcomes) == WORDS.keys() | HARMLESS
    for name, reason in WORDS.items():
        assert outcomes[name].kind == "refused", (name, outcomes[name])
        assert reason in outcomes[name].message, (name, outcomes[name])


def test_plain_values_may_be_used_twice():
    text_ = "a long name that is written once"
    value = {"data": [text_, text_, 1.5, None, True], "more": [text_, 2**63]}
    for protocol in (2, 3, 4, 5):
        assert load(pickle.dumps(value, protocol)) == value
    shared = [1]
    assert TWICE in refusal(pickle.dumps({"one": shared, "two": shared}, 2))


def long(content):
    return b"T" + struct.pack("<I", len(content)) + content


def filled(content):
    """Instructions that fill an array of 1 x 3,072 bytes with what `content` makes."""
    return b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R\x89" + content + b"tb"


MADE = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
ONE, TWO = b"\x01" * 3072, b"\x02" * 3072
AGAIN = filled(b"h\x01") + b"s."


@pytest.mark.parametrize(
    ("data", "in_place"),
    [
        (b"\x80\x02}U\x01b" + MADE + filled(long(ONE) + b"q\x01") + b"sU\x01a" + MADE + AGAIN, True),
        (b"\x80\x02}U\x01x" + long(ONE) + b"q\x01sU\x01y" + long(TWO) + b"sU\x01a" + MADE + AGAIN, False),
        (b"\x80\x02}U\x01x" + long(ONE) + b"q\x01sU\x01a" + MADE + filled(long(TWO)) + AGAIN, False),
        (b"}U\x01a" + MADE + filled(b"S'" + ONE + b"'\n") + b"s.", False),
        (b"}U\x01a" + MADE + filled(b"S'" + b"\\x01" * 3072 + b"'\n") + b"s.", False),
    ],
    ids=["of two arrays", "others between", "filled twice", "in quotes", "with escapes"],
)
def test_the_bytes_of_an_array_are_where_its_offset_says_or_nowhere(data, in_place):
    value = load(data)["a"]
    content = pickles.byte_matrix(value).tobytes()
    assert content == ONE
    assert (value.offset is not None) == in_place
    assert not in_place or data[value.offset :][:3072] == content
