"""When certificates end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from mirrormq.admin.certificates import certificates_in, end_of_validity


@pytest.mark.parametrize("years", [1, 20, 60])
def test_the_end_of_a_certificate_is_read(tmp_path: Path, years: int):
    end = (datetime.now(UTC) + timedelta(days=365 * years)).replace(microsecond=0)
    certificate = trustme.CA().issue_cert("localhost", not_after=end)
    file = tmp_path / "server.pem"
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(str(file), append=True)
    assert certificates_in(file)[0] == end


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x03\x02\x01\x01", b"not a certificate", b"\x30\x82\xff\xff"])
def test_what_is_no_certificate_is_refused(data: bytes):
    with pytest.raises(ValueError):
        end_of_validity(data)
