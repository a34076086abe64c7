"""What every method is: an identity, named fields, and its bytes."""

from __future__ import annotations

from typing import ClassVar


class Method:
    """`ID` is the class id in the upper and the method id in the lower 16 bits; `FIELDS` follow the wire's order."""

    ID: ClassVar[int] = 0
    name: ClassVar[str] = ""
    FIELDS: ClassVar[tuple[str, ...]] = ()

    @property
    def id(self) -> int:
        return self.ID

    @property
    def class_id(self) -> int:
        return self.ID >> 16

    @property
    def method_id(self) -> int:
        return self.ID & 0xFFFF

    def encode(self) -> bytes:
        """The payload of a method frame: ids and arguments."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Method) or self.ID != other.ID:
            return False
        return all(getattr(self, field) == getattr(other, field) for field in self.FIELDS)

    def __hash__(self) -> int:
        return hash(self.ID)

    def __repr__(self) -> str:
        fields = ", ".join([f"{field}={getattr(self, field)!r}" for field in self.FIELDS])
        return f"<{self.name} {fields}>" if fields else f"<{self.name}>"
