"""tx: transactions of publishes and acknowledgements."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.writer import Writer


class TxSelect(Method):
    ID: ClassVar[int] = 90 << 16 | 10
    name: ClassVar[str] = "tx.select"

    def encode(self) -> bytes:
        return Writer(TxSelect.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> TxSelect:
        return TxSelect()


class TxSelectOk(Method):
    ID: ClassVar[int] = 90 << 16 | 11
    name: ClassVar[str] = "tx.select-ok"

    def encode(self) -> bytes:
        return Writer(TxSelectOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> TxSelectOk:
        return TxSelectOk()


class TxCommit(Method):
    ID: ClassVar[int] = 90 << 16 | 20
    name: ClassVar[str] = "tx.commit"

    def encode(self) -> bytes:
        return Writer(TxCommit.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> TxCommit:
        return TxCommit()


class TxCommitOk(Method):
    ID: ClassVar[int] = 90 << 16 | 21
    name: ClassVar[str] = "tx.commit-ok"

    def encode(self) -> bytes:
        return Writer(TxCommitOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> TxCommitOk:
        return TxCommitOk()


class TxRollback(Method):
    ID: ClassVar[int] = 90 << 16 | 30
    name: ClassVar[str] = "tx.rollback"

    def encode(self) -> bytes:
        return Writer(TxRollback.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> TxRollback:
        return TxRollback()


class TxRollbackOk(Method):
    ID: ClassVar[int] = 90 << 16 | 31
    name: ClassVar[str] = "tx.rollback-ok"

    def encode(self) -> bytes:
        return Writer(TxRollbackOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> TxRollbackOk:
        return TxRollbackOk()
