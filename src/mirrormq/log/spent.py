"""Names of files that dropped queues had: they are removed soon, and a queue that comes again before that must not reuse them."""

from __future__ import annotations

from typing import Final

MOST: Final = 10_000


class Spent:
    """For each queue dropped lately, the generation that its next file may have."""

    def __init__(self) -> None:
        self._generations: dict[int, int] = {}

    def note(self, queue_id: int, generation: int) -> None:
        if generation > 1:
            self._generations[queue_id] = generation
            if len(self._generations) > MOST:
                del self._generations[next(iter(self._generations))]

    def of(self, queue_id: int) -> int:
        return self._generations.get(queue_id, 1)
