"""Breaking what the grammar made: changes to a list of frames, and the cutting of its bytes into portions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

Frames = list[bytes]
Mutation = Callable[[Random, Frames, Frames], None]

BYTES = (0x00, 0x01, 0x7F, 0x80, 0xCE, 0xFF, 0x02, 0x03, 0x08, 0x3C)
SIZES = (0, 1, 7, 8, 4088, 4096, 4097, 131064, 131072, 131073, 2**31 - 1, 2**31, 2**32 - 1)


def _pick(rng: Random, frames: Frames) -> int:
    return rng.randrange(len(frames))


def _put(frames: Frames, at: int, start: int, data: bytes) -> None:
    old = frames[at]
    frames[at] = old[:start] + data + old[start + len(data) :]


def _resized(data: bytes) -> bytes:
    """A frame whose size field fits again."""
    if len(data) < 8:
        return data
    return data[:3] + (len(data) - 8).to_bytes(4, "big") + data[7:]


def flip_bit(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    if frames[at]:
        place = rng.randrange(len(frames[at]))
        _put(frames, at, place, bytes([frames[at][place] ^ 1 << rng.randrange(8)]))


def set_byte(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    if frames[at]:
        _put(frames, at, rng.randrange(len(frames[at])), bytes([rng.choice(BYTES)]))


def set_payload_byte(rng: Random, frames: Frames, others: Frames) -> None:
    """Inside the payload: the frame stays a frame."""
    at = _pick(rng, frames)
    if len(frames[at]) > 8:
        _put(frames, at, rng.randrange(7, len(frames[at]) - 1), bytes([rng.randrange(256)]))


def truncate(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    frames[at] = frames[at][: rng.randrange(len(frames[at]) + 1)]


def shorten_payload(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    data = frames[at]
    if len(data) > 8:
        frames[at] = _resized(data[: rng.randrange(7, len(data) - 1)] + b"\xce")


def lengthen_payload(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    data = frames[at]
    if len(data) >= 8:
        frames[at] = _resized(data[:-1] + rng.randbytes(rng.randint(1, 12)) + b"\xce")


def repeat(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    frames[at:at] = [frames[at]] * rng.randint(1, 3)


def remove(rng: Random, frames: Frames, others: Frames) -> None:
    if len(frames) > 1:
        del frames[_pick(rng, frames)]


def swap(rng: Random, frames: Frames, others: Frames) -> None:
    first, second = _pick(rng, frames), _pick(rng, frames)
    frames[first], frames[second] = frames[second], frames[first]


def splice(rng: Random, frames: Frames, others: Frames) -> None:
    """The beginning of one frame with the end of another."""
    at = _pick(rng, frames)
    one, other = frames[at], rng.choice(others)
    joined = one[: rng.randrange(len(one) + 1)] + other[rng.randrange(len(other) + 1) :]
    frames[at] = _resized(joined) if rng.random() < 0.7 else joined


def insert_other(rng: Random, frames: Frames, others: Frames) -> None:
    frames.insert(_pick(rng, frames), rng.choice(others))


def insert_noise(rng: Random, frames: Frames, others: Frames) -> None:
    frames.insert(_pick(rng, frames), rng.randbytes(rng.choice((1, 2, 7, 8, 9, 30, 200))))


def insert_heartbeat(rng: Random, frames: Frames, others: Frames) -> None:
    frames.insert(_pick(rng, frames), b"\x08\x00\x00\x00\x00\x00\x00\xce")


def change_channel(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    if len(frames[at]) > 2:
        _put(frames, at, 1, rng.choice((0, 0, 1, 2, 3, 4, 255, 65535)).to_bytes(2, "big"))


def change_size(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    if len(frames[at]) > 7:
        size = rng.choice(SIZES) if rng.random() < 0.5 else max(0, len(frames[at]) - 8 + rng.randint(-3, 3))
        _put(frames, at, 3, size.to_bytes(4, "big"))


def change_type(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    if frames[at]:
        _put(frames, at, 0, bytes([rng.choice((0, 1, 2, 3, 4, 8, 65, 255))]))


def change_end(rng: Random, frames: Frames, others: Frames) -> None:
    at = _pick(rng, frames)
    if frames[at]:
        frames[at] = frames[at][:-1] + bytes([rng.randrange(256)])


def change_method(rng: Random, frames: Frames, others: Frames) -> None:
    """Another class or method over the same arguments."""
    at = _pick(rng, frames)
    if len(frames[at]) > 11:
        classes = (10, 20, 30, 40, 50, 60, 85, 90, 0, 61, 316)
        methods = (10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 70, 71, 72, 80, 90, 100, 110, 111, 120, 0, 296)
        _put(frames, at, 7, rng.choice(classes).to_bytes(2, "big") + rng.choice(methods).to_bytes(2, "big"))


def change_length_inside(rng: Random, frames: Frames, others: Frames) -> None:
    """Four octets of the payload become a length that fits nothing."""
    at = _pick(rng, frames)
    if len(frames[at]) > 16:
        _put(frames, at, rng.randrange(11, len(frames[at]) - 4), rng.choice(SIZES).to_bytes(4, "big"))


MUTATIONS: tuple[Mutation, ...] = (
    flip_bit, flip_bit, set_byte, set_payload_byte, set_payload_byte, set_payload_byte, truncate, shorten_payload,
    lengthen_payload, repeat, repeat, remove, remove, swap, swap, splice, splice, insert_other, insert_other,
    insert_noise, insert_heartbeat, change_channel, change_channel, change_size, change_type, change_end, change_method,
    change_length_inside,
)  # fmt: skip


def mutate(rng: Random, frames: Frames, others: Frames, count: int) -> None:
    """Break a list of frames in place; `others` are frames that may be mixed in."""
    for mutation in rng.choices(MUTATIONS, k=count):
        mutation(rng, frames, others)


def portions(rng: Random, frames: Frames) -> list[bytes]:
    """The bytes of all frames, cut as a network might."""
    choice = rng.random()
    if choice < 0.2:
        return [frame for frame in frames if frame]
    stream = b"".join(frames)
    if choice < 0.55 or len(stream) < 2:
        return [stream] if stream else []
    if choice < 0.62 and len(stream) < 3000:
        step = rng.randint(1, 16)
        return [stream[at : at + step] for at in range(0, len(stream), step)]
    cuts = sorted({0, len(stream), *[rng.randrange(1, len(stream)) for _ in range(rng.randint(1, 4))]})
    return [stream[start:end] for start, end in pairwise(cuts)]
