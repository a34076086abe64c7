"""A backup of all queues into a lake, checked, and a queue of it restored into an empty cluster.

    python examples/nightly_backup.py http://guest:guest@localhost:15672 /var/lib/lake orders http://guest:guest@spare:15672

The same with commands: mirrormq lake mirror --once, mirrormq lake verify, mirrormq lake restore.
"""

from __future__ import annotations

import sys

from mirrormq.lake import restore
from mirrormq.lake.client import Address
from mirrormq.lake.engine import session
from mirrormq.lake.mirror import Mirror
from mirrormq.lake.tables import Place
from mirrormq.lake.verify import verify

url, lake, queue, spare = sys.argv[1:5]
spark, place = session(), Place.at(lake)
backup = Mirror(spark, Address.parse(url), place, "nightly")
backup.start()
print(backup.sync().sentence())
rows, findings = verify(spark, place, Address.parse(url))
assert not findings, [finding.sentence() for finding in findings]
content = restore.content(spark, place, queue, "/", None)
print(restore.preview(content, queue).sentence())
restore.restore(content, Address.parse(spare), queue)
