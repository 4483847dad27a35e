"""A client of Kafka's protocol with Tandem's additions, written from docs/protocol.md and Kafka's own description. Needs only Python.

    foreign.py HOST:PORT TOPIC PARTITIONS RECORDS GROUP docs/protocol.md

The topic holds so many records with keys. The program fetches it by halves of the key axis, commits offset ranges and
watermarks of them, reads back what is committed, and ends with an error where that is not what the document says.
"""
import itertools
import re
import socket
import struct
import sys
import time

KEY_RANGES, OFFSET_RANGES, COMMITTED, SCANNED, BASE = 10000, 10001, 10002, 10003, 10004
INVALID_REQUEST = 42
RETRY = {5, 14, 15, 16}  # leader or coordinator: not yet
LOW, HIGH = (0, 2**31 - 1), (2**31, 2**32 - 1)


def uvarint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def string(s):
    return uvarint(0) if s is None else uvarint(len(s.encode()) + 1) + s.encode()


def array(items):
    return uvarint(len(items) + 1) + b"".join(items)


def tags(fields):
    return uvarint(len(fields)) + b"".join(uvarint(t) + uvarint(len(v)) + v for t, v in sorted(fields.items()))


def pairs(ranges):
    return array([struct.pack(">qq", *r) for r in ranges])


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, n):
        if self.at + n > len(self.data):
            raise ValueError(f"{n} bytes are wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, code):
        return struct.unpack(">" + code, self.bytes(struct.calcsize(code)))[0]

    def uvarint(self):
        n = shift = 0
        while True:
            b = self.bytes(1)[0]
            n |= (b & 127) << shift
            if b < 128:
                return n
            shift += 7

    def varint(self):
        n = self.uvarint()
        return n >> 1 ^ -(n & 1)

    def string(self):
        n = self.uvarint()
        return None if n == 0 else self.bytes(n - 1).decode()

    def array(self, element):
        return [element() for _ in range(self.uvarint() - 1)]

    def tags(self):
        return {self.uvarint(): self.bytes(self.uvarint()) for _ in range(self.uvarint())}

    def pairs(self):
        return self.array(lambda: (self.number("q"), self.number("q")))


class Connection:
    """One connection: requests one after the other."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=30)
        self.correlation = 0
        r = self.ask(18, 3, string("foreign") + string("1") + tags({}), flexible=False)
        assert r.number("h") == 0
        self.versions = {key: (low, high) for key, low, high, _ in r.array(lambda: (r.number("h"), r.number("h"), r.number("h"), r.tags()))}
        r.number("i")
        features = Reader(r.tags().get(0, b"\1"))
        self.features = {name: (low, high) for name, low, high, _ in
                         features.array(lambda: (features.string(), features.number("h"), features.number("h"), features.tags()))}
        for feature in ("tandem.individual.commit", "tandem.key.range.fetch"):
            low, high = self.features.get(feature, (0, 0))
            assert low <= 1 <= high, f"{feature} is not offered: {self.features}"

    def ask(self, api, version, body, flexible=True):
        self.correlation += 1
        client = b"foreign"
        frame = struct.pack(">hhih", api, version, self.correlation, len(client)) + client + tags({}) + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        r = Reader(self.read(struct.unpack(">i", self.read(4))[0]))
        assert r.number("i") == self.correlation
        if flexible:
            r.tags()
        return r

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            assert more, "the connection was closed"
            data += more
        return data


def murmur2(key):
    m, mask = 0x5BD1E995, 2**32 - 1
    h = 0x9747B28C ^ len(key)
    for i in range(0, len(key) - 3, 4):
        k = int.from_bytes(key[i:i + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    rest = key[len(key) & ~3:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def reverse(x):
    return int(f"{x:032b}"[::-1], 2)


def position(key, offset, base):
    return reverse(offset & 2**32 - 1) if key is None else reverse((murmur2(key) & 0x7FFFFFFF) // base)


def check_positions(document):
    """Against the table of the document."""
    part = document.split("<!-- positions:")[1].split("<!-- end of positions -->")[0]
    rows = 0
    for line in part.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) != 5 or not cells[4].isdigit():
            continue
        key, base = cells[0], cells[1]
        null = re.match(r"null, at offset (\d+)", key)
        if null:
            got = position(None, int(null[1]), 1)
        else:
            got = position(b"" if key == "empty" else key.strip("`").encode(), 0, int(base))
        assert got == int(cells[4]), f"{line}: {got}"
        rows += 1
    assert rows >= 5, "the document has no table of positions"


def metadata(c, topic):
    while True:
        r = c.ask(3, 9, array([string(topic) + tags({})]) + b"\0\0\0" + tags({}))
        r.number("i")
        brokers = {id: (host, port) for id, host, port, _, _ in
                   r.array(lambda: (r.number("i"), r.string(), r.number("i"), r.string(), r.tags()))}
        r.string(), r.number("i")

        def partition():
            fields = r.number("h"), r.number("i"), r.number("i"), r.number("i")
            for _ in range(3):
                r.array(lambda: r.number("i"))
            r.tags()
            return fields
        (error, _, _, partitions, _, _), = r.array(lambda: (r.number("h"), r.string(), r.number("b"), r.array(partition), r.number("i"), r.tags()))
        if error == 0 and all(p[0] == 0 for p in partitions):
            return {index: brokers[leader] for _, index, leader, _ in partitions}
        time.sleep(0.1)


def coordinator(c, group):
    while True:
        r = c.ask(10, 3, string(group) + b"\0" + tags({}))
        r.number("i")
        error, _, _, host, port = r.number("h"), r.string(), r.number("i"), r.string(), r.number("i")
        if error == 0:
            return host, port
        assert error in RETRY, f"FindCoordinator: error {error}"
        time.sleep(0.1)


def records(data):
    """The records of uncompressed batches: offset and key."""
    out, r = [], Reader(data)
    while r.at < len(data):
        first, length = r.number("q"), r.number("i")
        batch = Reader(r.bytes(length))
        batch.number("i")
        assert batch.number("b") == 2, "the batch is not of magic 2"
        batch.number("I")
        assert batch.number("h") & 7 == 0, "the batch is compressed"
        batch.bytes(4 + 8 + 8 + 8 + 2 + 4)
        for _ in range(batch.number("i")):
            record = Reader(batch.bytes(batch.varint()))
            record.number("b"), record.varint()
            offset, n = first + record.varint(), record.varint()
            out.append((offset, None if n < 0 else record.bytes(n)))
    return out


def fetch(c, topic, partition, offset, ranges, base):
    """One Fetch of key ranges: records, and up to where they were looked for."""
    part = struct.pack(">iiqiqi", partition, -1, offset, -1, -1, 2000) + tags({KEY_RANGES: pairs(ranges), BASE: struct.pack(">i", base)})
    body = struct.pack(">iiiibii", -1, 200, 1, 2**20, 0, 0, -1) + array([string(topic) + array([part]) + tags({})]) + array([]) + string("") + tags({})
    r = c.ask(1, 12, body)
    r.number("i")
    assert r.number("h") == 0
    r.number("i")

    def one():
        index, error, end, _, _ = r.number("i"), r.number("h"), r.number("q"), r.number("q"), r.number("q")
        r.array(lambda: (r.number("q"), r.number("q"), r.tags()))
        r.number("i")
        return index, error, end, r.bytes(r.uvarint() - 1), r.tags()
    (_, ((index, error, end, data, more),), _), = r.array(lambda: (r.string(), r.array(one), r.tags()))
    assert (index, error) == (partition, 0), f"Fetch: error {error}"
    return records(data), struct.unpack(">q", more[SCANNED])[0], end


def read_half(c, topic, partition, ranges, base):
    got, at, end = [], 0, 1
    while at < end:
        some, scanned, end = fetch(c, topic, partition, at, ranges, base)
        for offset, key in some:
            assert at <= offset < scanned, f"offset {offset} is not in {at}-{scanned}"
            p = position(key, offset, base)
            assert any(first <= p <= last for first, last in ranges), f"key {key} at {p} is not in {ranges}"
        got += some
        at = max(at, scanned)
    return got


def commit(c, group, topic, partition, offset, fields, text=None):
    part = struct.pack(">iqi", partition, offset, -1) + string(text) + tags(fields)
    while True:
        r = c.ask(8, 8, string(group) + struct.pack(">i", -1) + string("") + string(None) + array([string(topic) + array([part]) + tags({})]) + tags({}))
        r.number("i")
        (_, ((_, error, _),), _), = r.array(lambda: (r.string(), r.array(lambda: (r.number("i"), r.number("h"), r.tags())), r.tags()))
        if error not in RETRY:
            return error
        time.sleep(0.1)


def committed(c, group, topic, partition, ranges, base):
    """The stable offset, and for each key range the offset ranges that are done above it."""
    ask = string(topic) + array([struct.pack(">i", partition)]) + tags({KEY_RANGES: pairs(ranges), BASE: struct.pack(">i", base)})
    while True:
        r = c.ask(9, 8, array([string(group) + array([ask]) + tags({})]) + b"\0" + tags({}))
        r.number("i")

        def one():
            fields = r.number("i"), r.number("q"), r.number("i"), r.string(), r.number("h")
            return fields + (r.tags(),)
        (_, topics, error, _), = r.array(lambda: (r.string(), r.array(lambda: (r.string(), r.array(one), r.tags())), r.number("h"), r.tags()))
        if error == 0:
            (_, ((_, offset, _, _, error, more),), _), = topics
        if error not in RETRY:
            break
        time.sleep(0.1)
    assert error == 0, f"OffsetFetch: error {error}"
    assert struct.unpack(">i", more.get(BASE, b"\0\0\0\0"))[0] in (0, base)
    of = Reader(more.get(COMMITTED, b"\1"))
    return offset, of.array(lambda: ((of.number("q"), of.number("q")), of.pairs()))


def check_committed(c, group, topic, base, all_records, done):
    """Against a model: done says whether a record is."""
    stable, above = committed(c, group, topic, 0, [(0, 2**32 - 1)], base)
    first_open = min((o for o, key in all_records if not done(o, position(key, o, base))), default=None)
    assert first_open is None or stable <= first_open, f"the stable offset {stable} is above {first_open}, which is not done"
    for o, key in all_records:
        p = position(key, o, base)
        listed = o < stable or any(k[0] <= p <= k[1] and any(f <= o <= l for f, l in offsets) for k, offsets in above)
        assert listed == done(o, p), f"offset {o} at {p}: committed {listed}, should be {done(o, p)}; stable {stable}, above {above}"
    return stable, above


def main(bootstrap, topic, partitions, count, group, document):
    partitions, count = int(partitions), int(count)
    with open(document, encoding="utf-8") as f:
        check_positions(f.read())
    host, port = bootstrap.rsplit(":", 1)
    first = Connection(host, int(port))
    leaders = metadata(first, topic)
    assert len(leaders) == partitions
    total, zero = 0, []
    for p in range(partitions):
        c = Connection(*leaders[p])
        low, high = (read_half(c, topic, p, [half], partitions) for half in (LOW, HIGH))
        offsets = sorted(o for o, _ in low + high)
        assert offsets == list(range(len(offsets))), f"partition {p}: the halves do not make the whole"
        assert low and high, f"partition {p}: one half is empty"
        assert {k for _, k in low}.isdisjoint(k for _, k in high), "a key is in both halves"
        total += len(offsets)
        zero = sorted(low + high) if p == 0 else zero
        quarters = [(0, 2**30 - 1), (3 * 2**30, 2**32 - 1)]
        assert sorted(read_half(c, topic, p, quarters, partitions)) == sorted(
            r for r in low + high if any(f <= position(r[1], r[0], partitions) <= l for f, l in quarters))
    assert total == count, f"{total} of {count} records"

    c = Connection(*coordinator(first, group))
    base = {BASE: struct.pack(">i", partitions)}
    own = {KEY_RANGES: pairs([LOW]), OFFSET_RANGES: pairs([(45, 47), (50, 50)]), **base}
    assert commit(c, group, topic, 0, -1, own) == 0

    def done(o, p, low=(), high=()):
        return any(f <= o <= l for f, l in (low if p <= LOW[1] else high))
    stable, above = check_committed(c, group, topic, partitions, zero, lambda o, p: done(o, p, [(45, 47), (50, 50)]))
    assert (stable, above) == (0, [(LOW, [(45, 47), (50, 50)])]), (stable, above)
    # Malformed ones change nothing: unsorted, overlapping, negative, cut short, a plain offset beside them, key ranges with a plain -1.
    one = pairs([(60, 61)])
    for offset, fields in [(-1, {OFFSET_RANGES: pairs([(60, 61), (58, 59)])}), (-1, {OFFSET_RANGES: pairs([(60, 65), (62, 70)])}),
                           (-1, {OFFSET_RANGES: pairs([(-2, 61)])}), (-1, {OFFSET_RANGES: one[:-1]}), (7, {OFFSET_RANGES: one}),
                           (-1, {KEY_RANGES: pairs([LOW])}), (-1, {OFFSET_RANGES: one, KEY_RANGES: pairs([(5, 2**32)])})]:
        assert commit(c, group, topic, 0, offset, fields) == INVALID_REQUEST, (offset, fields)
    assert committed(c, group, topic, 0, [LOW, HIGH], partitions) == (0, [(LOW, [(45, 47), (50, 50)])])
    # A watermark for each half, and an individual commit as text.
    assert commit(c, group, topic, 0, 30, {KEY_RANGES: pairs([LOW]), **base}) == 0
    assert commit(c, group, topic, 0, 20, {KEY_RANGES: pairs([HIGH]), **base}) == 0
    text = f"ranges=22-24,40-41 keys={HIGH[0]}-{HIGH[1]} base={partitions}"
    assert commit(c, group, topic, 0, -1, {}, text) == 0
    stable, _ = check_committed(c, group, topic, partitions, zero,
                                lambda o, p: done(o, p, [(0, 29), (45, 47), (50, 50)], [(0, 19), (22, 24), (40, 41)]))
    assert stable >= 20, stable
    # And all of the partition.
    assert commit(c, group, topic, 0, -1, {OFFSET_RANGES: pairs([(0, len(zero) - 1)]), **base}) == 0
    assert committed(c, group, topic, 0, [HIGH], partitions) == (len(zero), [])
    print("ok")


if __name__ == "__main__":
    main(*itertools.islice(sys.argv, 1, None))
