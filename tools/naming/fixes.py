"""What the type-aware renaming cannot see: strings, doubles in tests."""
import json, re, sys, glob, os
from pathlib import Path
ROOT=Path(__file__).resolve().parents[2]
members={}
functions={}
for p in Path(__file__).parent.glob('*.json'):
    for file,cls,old,name in json.loads(p.read_text())['members']: members[file,cls,old]=name
    for file,old,name in json.loads(p.read_text())['functions']: functions[file,old]=name
def new(file,cls,old): return members.get((file,cls,old),old)
def edit(path, fn):
    p=ROOT/path; t=p.read_text(); u=fn(t)
    if u==t: print("unchanged",path)
    p.write_text(u)
# attrgetter strings: by class of the root object
Q={}
for (f,c,o),n in members.items():
    if (f,c) in {("broker/queue.py","Queue"),("broker/queue_log.py","QueueLog"),("broker/bindings.py","Destination")}: Q[o]=n
BK={o:n for (f,c,o),n in members.items() if (f,c) in {("broker/backlog.py","Backlog"),("broker/backlog.py","PlainBacklog")}}
TURNS={o:n for (f,c,o),n in members.items() if (f,c)==("broker/consumer.py","Turns")}
CON={o:n for (f,c,o),n in members.items() if (f,c) in {("broker/connection.py","Connection"),("broker/inlet.py","Inlet"),("broker/outlet.py","Outlet")}}
CH={o:n for (f,c,o),n in members.items() if (f,c)==("broker/channel.py","Channel")}
def path_of(word, first, second):
    parts=word.split('.'); head=first.get(parts[0],parts[0])
    rest=[second.get(parts[0],{}).get(x,x) for x in parts[1:]]
    return '.'.join([head,*rest])
def strings(text, pattern, first, second):
    """Strings within each call of attrgetter, and within tuples that match `pattern`."""
    def call(m): return re.sub(r'"([a-z_.]+)"', lambda s: '"'+path_of(s[1],first,second)+'"', m[0])
    return re.sub(pattern, call, text, flags=re.S)
AG=r'attrgetter\((?:[^()]|\n)*?\)'
edit("src/mirrormq/admin/queue_marks.py", lambda t: strings(t, AG, Q, {"backlog":BK,"turns":TURNS}))
def conn(t):
    def call(m):
        inner=m[0]
        is_ch='connection.name' in inner or re.search(r'attrgetter\("(transaction|consumers|unacked)"\)',inner)
        first=CH if is_ch else CON
        return re.sub(r'"([a-z_.]+)"', lambda s: '"'+path_of(s[1],first,{"connection":CON})+'"', inner)
    return re.sub(AG, call, t, flags=re.S)
edit("src/mirrormq/admin/connection_view.py", conn)
edit("src/mirrormq/admin/totals.py", conn)
def sub(f, *pairs):
    p=ROOT/f; t=p.read_text()
    for a,b in pairs:
        if a not in t: print("not found in",f,":",a[:80]); continue
        t=t.replace(a,b)
    p.write_text(t)
sub("src/mirrormq/admin/ring_office.py", ("from mirrormq.admin.mirrors import RingDetails as Summary\n","from mirrormq.admin.mirrors import RingSummary\n"), ("-> Summary |","-> RingSummary |"), ("return Summary(","return RingSummary("))
sub("src/mirrormq/admin/definitions.py", ("import parameter_rows as parameter_rows","import parameter_rows"), ("import permission_rows as permission_rows","import permission_rows"),
 ('"exchanges": [_exchange_definition(item) | {"vhost": item.vhost} for vhost in vhosts for item in _exported_exchanges(vhost)],','"exchanges": [_exchange_definition(item) | {"vhost": item.vhost}\n                      for vhost in vhosts for item in _exported_exchanges(vhost)],'))
sub("src/mirrormq/admin/cluster_view.py", ('"listeners": {name: [_member_listener_row(name, *place) for place in told.get("listeners", [])] for name, told in about.items()},','"listeners": {name: [_member_listener_row(name, *place) for place in told.get("listeners", [])]\n                      for name, told in about.items()},'))
sub("src/mirrormq/admin/openapi.py", ('"member":','"vhost_user":'), ('"member_or_monitor":','"vhost_user_or_monitor":'))
sub("tests/cluster/link/link_child.py", ("async def visit(","async def serve_one_shot("))
sub("tests/cluster/link/support.py", ("async def visit(","async def serve_one_shot("))
sub("tests/cluster/test_lease.py", ("self.grant = store","self.grant_lease = store"))
sub("tests/perf/test_engine.py", ("def sample(self, elapsed","def show_sample(self, elapsed"), ("async def evidence(self)","async def collect_counts(self)"))
sub("src/mirrormq/admin/openapi.py", ('"known": "none','"logged_in": "none'))
_b = {o: new("broker/broker.py", "Broker", o) for o in ("active", "dirty", "awaiting", "parting", "confirming", "eased", "resumed", "drained", "letters")}
_t = 'UNDER_WAY = ("active", "dirty", "awaiting", "parting", "confirming", "eased", "resumed", "drained", "letters")'
sub("tests/fuzz/world.py", (_t, "UNDER_WAY = (" + ", ".join(f'"{n}"' for n in _b.values()) + ")"))
_w = ("members", "leader", "automatic", "min_in_sync", "asynchronous", "gather", "promote_after_crash", "promote_after_stop", "rate", "order")
_n = [new("mirror/machine/records.py", "Desired", w) for w in _w]
import re as _re
_p = ROOT / "src/mirrormq/cluster/wishes.py"; _s = _p.read_text()
_s2 = _re.sub(r'Final = \("members", "leader".*?"order"\)', "Final = (" + ", ".join(f'"{n}"' for n in _n[:5]) + ",\n    " + ", ".join(f'"{n}"' for n in _n[5:]) + ")", _s, flags=_re.S)
if _s2 == _s: print("wishes unchanged")
_p.write_text(_s2)
sub("tests/broker/test_portions.py", ("target.embassy.load", f'target.{new("broker/forward/away.py", "AwayQueue", "embassy")}.{new("broker/forward/embassy.py", "Embassy", "load")}'))
sub("tests/node/test_probe.py", ("cluster.store.grant(", "cluster.store.grant_lease("))
_e = new("log/entries.py", "ChunkBuilder", "enqueue_extra")
sub("tests/log/test_entries.py", ('"enqueue_extra"', f'"{_e}"'))
_q = {o: new("broker/queue_log.py", "QueueLog", o) for o in ("held",)} | {"kept": new("broker/queue_log.py", "QueueLog", "kept")}
sub("tests/admin/test_forecast.py", ("vhost, name, held, kept, backlog =", f"vhost, name, {_q['held']}, {_q['kept']}, backlog ="))
sub("tests/broker/forward/cluster.py", ('("awaiting", "parting")', f'("{_b["awaiting"]}", "{_b["parting"]}")'))
