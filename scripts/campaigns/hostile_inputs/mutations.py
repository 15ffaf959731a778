"""What is done to a sound file to make it hostile. Each takes the file's path and a random.Random, and says what it did."""
import json
import os
import socket
import stat
import struct

from hostile_inputs import sound

MARK = "HOSTILE"
# Renames the window, clears the screen, asks for an answer, C1, turns the order of what is read, DEL, a line of its own.
CONTROLS = (f"\x1b]0;{MARK}\x07", "\x1b[2J\x1b[31m", "\x1b[6n", "\u009b31m\u0090", "\u202egpj.\u2066x", "\x7f\b\b\r", "\x00\x01", "\ufeff\u2028")
MARKUP = f"<img src=x onerror=alert(1)>{MARK}</script><script>"
NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, 2**32, -2**31 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -2**63, 1e308, -1e308, 1e-320, 0.5, 1e9, 10**30)
SECRET = "SECRET-" + "k" * 64


def hostile_text(draw):
    control = draw.choice(CONTROLS)
    return draw.choice((control, "x" + control + "y", MARKUP, "a" * 5000 + control, "../../../outside/secret", "/etc/passwd",
                        "", " ", "%s%n%x", "{{ 7 * 7 }}", "é" * 300, "\ud800", "..", "a/b", "-1", "1e999"))


def hostile_value(draw):
    return draw.choice((None, True, [], {}, [[]], [None], {"": ""}, [1] * 1000, {"a": {"b": {"c": []}}}, float("nan"), float("inf"), -float("inf"),
                        draw.choice(NUMBERS), draw.choice(NUMBERS), hostile_text(draw), hostile_text(draw), [hostile_text(draw)],
                        {hostile_text(draw): hostile_text(draw)}))


def places_of(value, here=()):
    """Paths to everything within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:40]) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*here, key)
        yield from places_of(inner, (*here, key))


def change_json(value, draw):
    """One to three changes somewhere within; keys too."""
    done = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = list(places_of(value))
        if not places:
            return hostile_value(draw), ["replaced"]
        if draw.random() < 0.5:  # long lists of numbers and tokens would take nearly all
            places = sorted(places, key=len)[: max(1, len(places) // 4)]
        *path, last = draw.choice(places)
        parent = value
        for key in path:
            parent = parent[key]
        how = draw.choice(("value", "value", "value", "text", "drop", "rename", "add", "swap"))
        if how == "drop":
            del parent[last]
        elif how == "text" or (how == "value" and isinstance(parent[last], str) and draw.random() < 0.5):
            parent[last] = hostile_text(draw)
        elif how in ("rename", "add") and isinstance(parent, dict):
            name = hostile_text(draw)
            parent[name] = parent.pop(last) if how == "rename" else hostile_value(draw)
        elif how == "swap":
            parent[last] = [parent[last]] if draw.random() < 0.5 else {"x": parent[last]}
        else:
            parent[last] = hostile_value(draw)
        done.append(f"{how} {'.'.join(map(str, (*path, last)))[:80]!r}")
    return value, done


def dump(value):
    return json.dumps(value).encode("utf-8", "surrogatepass")


# Of any file: what stands in its place, and its bytes.

def replace(path):
    if path.is_dir() and not path.is_symlink():
        for inner in sorted(path.rglob("*"), reverse=True):
            inner.rmdir() if inner.is_dir() else inner.unlink()
        path.rmdir()
    elif path.is_symlink() or path.exists():
        path.unlink()


def fifo(path, _draw):
    replace(path)
    os.mkfifo(path)


def socket_there(path, _draw):
    replace(path)
    server = socket.socket(socket.AF_UNIX)
    before = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    server.bind(path.name)
    os.chdir(before)
    server.close()


def folder_there(path, _draw):
    replace(path)
    path.mkdir()


def link_to(*targets):
    def link(path, draw):
        target = draw.choice(targets)
        replace(path)
        if target.startswith("outside/"):  # beside the folder of all cases
            scratch = next(folder.parent for folder in path.parents if folder.name == "cases")
            path.symlink_to(os.path.relpath(scratch / target, path.parent))
        else:
            path.symlink_to(target.replace("NAME", path.name))
        return target
    return link


def device_there(path, draw):
    """A node of its own, so that none of the machine's is at risk; without the right to make one, a link."""
    replace(path)
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, draw.choice((3, 5, 7, 8))))  # null, zero, full, random
    except OSError:
        path.symlink_to("/dev/zero")


def empty(path, _draw):
    path.write_bytes(b"")


def sparse(path, draw):
    size = draw.choice((20 << 20, 300 << 20, 1 << 31, (1 << 31) + 5, 1 << 35, 1 << 42))
    with open(path, "r+b") as file:
        file.truncate(size)
    return f"{size} bytes"


def cut(path, draw):
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data))] if data else b"")


def cut_one(path, _draw):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path, draw):
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 8, 64))):
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def noise(path, draw):
    path.write_bytes(draw.randbytes(draw.choice((1, 7, 100, 5000))))


def sprinkle(path, draw):
    data = bytearray(path.read_bytes())
    for _ in range(3):
        at = draw.randrange(len(data) + 1)
        data[at:at] = draw.choice(CONTROLS).encode()
    path.write_bytes(data)


def other_encoding(path, draw):
    text = path.read_bytes().decode("utf-8", "replace")
    path.write_bytes(draw.choice((text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode(), text.encode("utf-32"), text.replace("\n", "\r\n").encode(), text.replace("\n", "\0").encode())))


def deep(path, draw):
    n = draw.choice((200, 5000, 1_000_000))
    path.write_bytes(draw.choice((b"[" * n, b'{"a":' * n, b"[" * n + b"]" * n, b'{"a":' * n + b"1" + b"}" * n)))
    return f"{n} levels"


def wide(path, draw):
    n = draw.choice((1 << 20, 15 << 20, 60 << 20, 100 << 20))
    unit = draw.choice((b"[],", b"{},", b"0,", b'"",', b"[[[]]],", b"null,"))
    path.write_bytes(b"[" + unit * (n // len(unit)) + b"0]")
    return f"{n} bytes of {unit!r}"


def many_keys(path, draw):
    n = draw.choice((1 << 10, 1 << 18, 1 << 20))
    path.write_bytes(b"{" + b",".join(b'"%x":%d' % (i, i) for i in range(n)) + b"}")
    return f"{n} keys"


def long_text(path, draw):
    n = draw.choice((1 << 20, 15 << 20, 40 << 20))
    path.write_bytes(b'{"model_type": "' + b"a" * n + b'"}')
    return f"{n} bytes"


def twice(path, _draw):
    """Every key of the outermost object again."""
    text = path.read_text(encoding="utf-8").strip()
    path.write_text("{" + text[1:-1] + "," + text[1:-1] + "}\n", encoding="utf-8")


def changed(path, draw):
    value, done = change_json(json.loads(path.read_bytes()), draw)
    path.write_bytes(dump(value) + b"\n")
    return ", ".join(done)


def changed_line(path, draw):
    lines = path.read_bytes().splitlines()
    done = []
    for _ in range(draw.choice((1, 3))):
        at = draw.randrange(len(lines))
        value, how = change_json(json.loads(lines[at]), draw)
        lines[at] = dump(value)
        done += how
    path.write_bytes(b"\n".join(lines) + b"\n")
    return ", ".join(done)


def bad_line(path, draw):
    lines = path.read_bytes().splitlines()
    bad = draw.choice((b"", b"{", b"[]", b"1", b'"x"', b"null", b"\xff\xfe", b"{}" * 3, b'{"text": "' + b"a" * (20 << 20) + b'"}',
                       b'{"text": ' + b"[" * 100000, b"a,b,c", b'{"text": "\x1b[2J"}', b'{"text": "\\ud800"}', b'{"text": "a", "text": "b"}'))
    lines.insert(draw.randrange(len(lines) + 1), bad)
    path.write_bytes(b"\n".join(lines))
    return repr(bad[:40])


def one_long_line(path, draw):
    """One text, whole or cut off, of which a tokenizer can make many pieces, a single one, or none."""
    n, part, end = draw.choice((1 << 20, 8 << 20, 140 << 20)), draw.choice((b"ab ", b"a", b" ", b"\xc3\xa9")), draw.choice((b'"}', b""))
    with open(path, "wb") as file:
        file.write(b'{"text": "' + part * (n // len(part)) + end)
    return f"{n} bytes of {part!r}"


def changed_header(path, draw):
    header, data = sound.split_safetensors(path.read_bytes())
    how = draw.choice(("json", "json", "json", "dtype", "offsets", "shape", "name", "metadata", "overlap", "order", "raw"))
    names = [name for name in header if name != "__metadata__"]
    entry = header[draw.choice(names)]
    if how == "json":
        header, done = change_json(header, draw)
        how = ", ".join(done)
    elif how == "dtype":
        entry["dtype"] = draw.choice(("F8_E4M3", "f32", "", "I4", *CONTROLS, *sound.TYPES))
    elif how == "offsets":
        entry["data_offsets"] = draw.choice(([0, 2**63], [2**63 - 8, 2**63 - 1], [8, 0], [-4, 4], [0, 4, 8], [0], [0, 2**64], [0.5, 4]))
    elif how == "shape":
        entry["shape"] = draw.choice(([], [0], [2**62, 4], [2**32, 2**32], [-1, 4], [1] * 70, [2**63 - 1], [1.5]))
    elif how == "name":
        old = draw.choice(names)
        header[hostile_text(draw) or "x"] = header.pop(old)
    elif how == "metadata":
        header["__metadata__"] = draw.choice(({hostile_text(draw): hostile_text(draw)}, {"format": 1}, [], "x", {str(i): "" for i in range(100000)}))
    elif how == "overlap":
        entry["data_offsets"] = header[names[0]]["data_offsets"]
    elif how == "order":
        header = dict(reversed(header.items()))
    raw = dump(header)
    if how == "raw":
        raw = draw.choice((b"{" * 100000, b"[]", b"{}", b"", b" " * 1000 + raw, raw + b" " * 7, raw.replace(b":", b"=", 1), raw[:-1] + b"," + raw[1:]))
    path.write_bytes(sound.join_safetensors(raw, data))
    return how


def changed_length(path, draw):
    data = path.read_bytes()
    length = draw.choice((0, 1, 7, len(data), len(data) - 8, len(data) + 1, 100_000_000, 100_000_001, 2**31, 2**63, 2**64 - 1, 2**64 - 8))
    path.write_bytes(struct.pack("<Q", length) + data[8:])
    return str(length)


def many_tensors(path, draw):
    n = draw.choice((10_000, 200_000))
    header = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(n)}
    path.write_bytes(sound.join_safetensors(header, b""))
    return f"{n} tensors"


def more_or_less_data(path, draw):
    data = path.read_bytes()
    path.write_bytes(draw.choice((data + b"\0" * 16, data[:-4], data[:-1], data + b"\0" * (1 << 20))))


def sign_changed(name):
    """A file of a checkpoint changed, and the manifest that vouches for it made to fit."""
    def change(folder, draw):
        path = folder / name
        how = (changed_header if name.endswith(".safetensors") else changed)(path, draw)
        sound.sign(folder, **{name: path.read_bytes()})
        return f"{name}: {how}"
    return change


def set_in_state(folder, draw):
    """Numbers of trainer_state.json that are read as places, counts and seeds."""
    path = folder / "trainer_state.json"
    state = json.loads(path.read_bytes())
    numbers = []
    for place in places_of(state):
        inner = state
        for key in place:
            inner = inner[key]
        if isinstance(inner, (int, float)) and not isinstance(inner, bool):
            numbers.append(place)
    *parents, last = draw.choice(numbers)
    inner = state
    for key in parents:
        inner = inner[key]
    inner[last] = draw.choice((*NUMBERS, 4_000_000_000, 625, 624))
    sound.sign(folder, **{"trainer_state.json": dump(state) + b"\n"})
    return f"{'.'.join(map(str, (*parents, last)))} = {inner[last]}"


YAML_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{c}: &{c} [{','.join('*' + p for _ in range(9))}]\n" for p, c in zip("abcdefgh", "bcdefghi"))


def changed_yaml(path, draw):
    lines = path.read_text(encoding="utf-8").splitlines()
    at = draw.randrange(len(lines))
    key = lines[at].split(":")[0]
    how = draw.choice(("value", "value", "value", "key", "twice", "drop", "raw"))
    quoted = json.dumps(hostile_text(draw), ensure_ascii=draw.random() < 0.5)
    if how == "value":
        value = draw.choice((quoted, str(draw.choice(NUMBERS)), "[1, 2]", "{a: b}", "~", "!!python/object:os.system x", "|\n  block", ".nan", ".inf", "0x1F", "1_000", "yes", "''"))
        lines[at] = f"{key}: {value}"
    elif how == "key":
        lines[at] = f"{quoted}: 1"
    elif how == "twice":
        lines.append(lines[at])
    elif how == "drop":
        del lines[at]
    else:
        lines.insert(at, draw.choice((YAML_BOMB, "[" * 10000, "? " * 5000, "- " * 5000, "a: *b", "<<: *x", "%YAML 9", "--- \n---", "\t- x", "x: &x [*x]", "\u202e: 1", "!!binary x", "key: 'open")))
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass") + b"\n")
    return f"{how} of {key}"


PLACE = (fifo, socket_there, folder_there, device_there, link_to("/dev/zero"), link_to("/dev/zero", "/dev/full", "/dev/random", "/dev/tty", "/dev/stdin"),
         link_to("nowhere"), link_to("NAME"), link_to("/proc/kmsg", "/proc/kcore", "/proc/self/mem", "/proc/self/fd/0", "/sys/kernel/debug/tracing/trace_pipe"))
BYTES = (empty, sparse, cut, cut, cut_one, flip, flip, flip, noise, sprinkle, other_encoding)
JSON = (changed,) * 12 + (twice, deep, wide, many_keys, long_text)
LINES = (changed_line,) * 8 + (bad_line,) * 4 + (one_long_line,)
TENSORS = (changed_header,) * 10 + (changed_length, many_tensors, more_or_less_data)
YAML = (changed_yaml,) * 10
