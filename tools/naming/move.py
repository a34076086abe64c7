"""Moves and merges modules as the PLAN.json files say, see README.md: move.py PLAN.json... [--apply]

Imports in src and tests are rewritten, also dotted names and paths in strings, docs and configuration.
"""
import argparse, ast, io, json, os, re, subprocess, sys, tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC, TESTS = ROOT / "src" / "mirrormq", ROOT / "tests"

def dotted(rel): return ".".join(["mirrormq", *rel.removesuffix(".py").split("/")]).removesuffix(".__init__")

class Module:
    def __init__(self, rel, path):
        self.rel, self.path = rel, path
        self.text = path.read_text()
        self.name = dotted(rel)
        self.where = self.name + (".__init__" if rel.endswith("__init__.py") else "")
        self.tree = ast.parse(self.text)
        self.lines = self.text.split("\n")
    def top_names(self):
        r = {}
        for n in self.tree.body:
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): r[n.name] = n
            elif isinstance(n, ast.Assign):
                for t in n.targets:
                    for x in ast.walk(t):
                        if isinstance(x, ast.Name): r[x.id] = n
            elif isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name): r[n.target.id] = n
        return r

def is_tc(n): return isinstance(n, ast.If) and isinstance(n.test, ast.Name) and n.test.id == "TYPE_CHECKING"

class Mover:
    def __init__(self, plan):
        self.new = {}                 # old rel -> new rel
        for r in plan["modules"]: self.new[r["old"]] = r["new"]
        self.order = {r["old"]: i for i, r in enumerate(plan["modules"])}
        self.modules = {}
        for path in sorted(SRC.rglob("*.py")):
            rel = str(path.relative_to(SRC)); self.modules[rel] = Module(rel, path)
        self.problems = []
        for rel in self.new:
            if rel not in self.modules: self.problems.append(f"there is no {rel}")
        for rel in self.modules: self.new.setdefault(rel, rel)
        self.by_name = {m.name: m for m in self.modules.values()}
        self.target = {m.name: dotted(self.new[rel]) for rel, m in self.modules.items()}
        self.exported = {}            # new module -> names
    # --- one statement of import -> list of (new module, name, asname, is_module)
    def items(self, node, me):
        r = []
        if isinstance(node, ast.Import):
            for a in node.names:
                r.append(("import", self.target.get(a.name, a.name), None, a.asname))
        else:
            base = node.module or ""
            if node.level:
                parts = me.split("."); base = ".".join(parts[: len(parts) - node.level] + ([node.module] if node.module else []))
            for a in node.names:
                full = f"{base}.{a.name}"
                if full in self.by_name and not self.is_attr(base, a.name):     # a module
                    t = self.target[full]
                    r.append(("module", t, a.name, a.asname))
                else:
                    r.append(("from", self.target.get(base, base), a.name, a.asname))
        return r
    def is_attr(self, base, name):
        m = self.by_name.get(base)
        return m is not None and name in m.top_names()
    def alias_edits(self, text, old, new):
        """`old.x` -> `new.x` (or `x` where new is None); returns the text and whether `old` is used otherwise."""
        out = []; toks = list(tokenize.generate_tokens(io.StringIO(text).readline)); edits = []; other = 0
        for i, t in enumerate(toks):
            if t.type == tokenize.NAME and t.string == old and not (i and toks[i-1].string == "."):
                if i + 1 < len(toks) and toks[i+1].string == ".":
                    if new is None: edits.append((t.start, (toks[i+2].start), ""))
                    else: edits.append((t.start, t.end, new))
                else: other += 1
        lines = text.split("\n")
        for (l, c), (l2, c2), s in sorted(edits, reverse=True):
            if l != l2: self.problems.append(f"alias {old} over two lines: {lines[l-1]}"); continue
            lines[l-1] = lines[l-1][:c] + s + lines[l-1][c2:]
        return "\n".join(lines), other
    def rewrite(self, text, me, inside=None, where=""):
        """Text of one module with imports pointing at the new places. `inside`: the new module that it becomes part of (imports of it vanish)."""
        tree = ast.parse(text)
        spans = []
        aliases = []
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Import, ast.ImportFrom)): continue
            if isinstance(node, ast.ImportFrom) and node.module == "__future__": continue
            if isinstance(node, ast.ImportFrom) and node.level and me.split(".")[0] != "mirrormq": continue
            items = self.items(node, me)
            if not any((i[1] or "").startswith("mirrormq") for i in items): continue
            out = []
            same = all((k == "from" and mod == getattr(node, "module", None)) or (k == "module" and mod == f"{node.module}.{nm}") or (k == "import" and mod in [a.name for a in node.names]) for k, mod, nm, _ in items)
            if same and not (isinstance(node, ast.ImportFrom) and node.level) and not any(i[1] == inside for i in items): continue
            for kind, module, name, asname in items:
                if kind == "import": out.append(f"import {module}" + (f" as {asname}" if asname else ""))
                elif kind == "module":
                    pkg, _, base = module.rpartition(".")
                    used = asname or name
                    if module == inside: aliases.append((used, None)); continue
                    if asname: out.append(f"from {pkg} import {base} as {asname}")
                    else:
                        out.append(f"from {pkg} import {base}")
                        if base != name: aliases.append((name, base))
                else:
                    if module == inside and inside is not None:
                        if asname: self.problems.append(f"{where}: {name} as {asname} inside a merge")
                        continue
                    out.append(f"from {module} import {name}" + (f" as {asname}" if asname else ""))
            spans.append((node.lineno, node.end_lineno, node.col_offset, out))
        lines = text.split("\n")
        for first, last, col, out in sorted(spans, reverse=True):
            pad = " " * col
            lines[first-1:last] = [pad + o for o in dict.fromkeys(out)]
        text = "\n".join(lines)
        for old, new in dict.fromkeys(aliases):
            text, other = self.alias_edits(text, old, new)
        # an `if TYPE_CHECKING:` that has nothing left
        text = re.sub(r"^if TYPE_CHECKING:\n(?=\S|\n\S|\n\n\S)", "", text, flags=re.M)
        return text
    def merged(self, new, rels):
        """One text out of several modules."""
        inside = dotted(new)
        parts = []
        # runtime dependencies first
        names = {self.modules[r].name: r for r in rels}
        deps = {r: set() for r in rels}
        for r in rels:
            for n in self.modules[r].tree.body:
                if isinstance(n, (ast.ImportFrom, ast.Import)):
                    for a in n.names:
                        for cand in ([n.module or "", f"{n.module}.{a.name}"] if isinstance(n, ast.ImportFrom) else [a.name]):
                            if cand in names and names[cand] != r: deps[r].add(names[cand])
        done, rest = [], sorted(rels, key=lambda r: self.order.get(r, 0))
        while rest:
            for r in rest:
                if deps[r] <= set(done): done.append(r); rest.remove(r); break
            else:
                self.problems.append(f"{new}: cycle among {rest}"); done += rest; rest = []
        seen = {}
        imports, typing_imports, bodies, doc = [], [], [], []
        for r in done:
            m = self.modules[r]
            for name in m.top_names():
                if name in seen and name != "__all__": self.problems.append(f"{new}: {name} in {seen[name]} and {r}")
                seen[name] = r
            text = self.rewrite(m.text, m.where, inside, r)
            tree = ast.parse(text); lines = text.split("\n")
            cut = set()
            for i, n in enumerate(tree.body):
                if i == 0 and isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) and isinstance(n.value.value, str):
                    doc.append((r, n.value.value)); cut |= set(range(n.lineno, n.end_lineno + 1))
                elif isinstance(n, (ast.Import, ast.ImportFrom)):
                    imports.append("\n".join(lines[n.lineno-1:n.end_lineno])); cut |= set(range(n.lineno, n.end_lineno + 1))
                elif is_tc(n):
                    for x in n.body:
                        if isinstance(x, (ast.Import, ast.ImportFrom)): typing_imports.append("\n".join(lines[x.lineno-1:x.end_lineno]))
                        else: self.problems.append(f"{r}: {ast.unparse(x)} below TYPE_CHECKING")
                    cut |= set(range(n.lineno, n.end_lineno + 1))
            body = "\n".join(l for i, l in enumerate(lines, 1) if i not in cut).strip("\n")
            bodies.append((r, body))
        have = set(seen)
        runtime = set()
        for i in imports:
            for n in ast.parse(i).body:
                for a in n.names: runtime.add((getattr(n, "module", None), a.name, a.asname))
        keep = []
        for i in typing_imports:
            n = ast.parse(i.strip()).body[0]
            for a in n.names:
                if (n.module, a.name, a.asname) in runtime: continue
                keep.append(f"    from {n.module} import {a.name}" + (f" as {a.asname}" if a.asname else ""))
        stem = Path(new).stem
        main = next((r for r in done if Path(r).stem == stem), max(done, key=lambda r: len(self.modules[r].text)))
        out = ['"""' + dict(doc).get(main, "") + '"""', ""]
        imports = list(dict.fromkeys(imports))
        imports.sort(key=lambda i: "__future__" not in i)
        out += imports
        if keep and not any("TYPE_CHECKING" in i for i in imports): out.append("from typing import TYPE_CHECKING")
        if keep: out += ["", "if TYPE_CHECKING:", *dict.fromkeys(keep)]
        for k, (r, body) in enumerate(bodies):
            out.append("\n")
            if r != main:
                d = dict(doc).get(r, "").strip().split("\n")
                out.append("# --- " + d[0]); out += [("# " + l).rstrip() for l in d[1:]]
                out.append("\n")
            out.append(body)
        return "\n".join(out) + "\n"
    def run(self, apply):
        groups = defaultdict(list)
        for rel, new in self.new.items():
            groups[new].append(rel)
        texts = {}
        for new, rels in groups.items():
            rels = [r for r in rels if r in self.modules]
            if not rels: continue
            real = [r for r in rels if not (r.endswith("__init__.py") and len(rels) > 1 and len(ast.parse(self.modules[r].text).body) <= 1)]
            texts[new] = self.rewrite(self.modules[real[0]].text, self.modules[real[0]].where, None, real[0]) if len(real) == 1 else self.merged(new, real)
        for new in list(texts):
            parent = os.path.dirname(new)
            while parent:
                texts.setdefault(f"{parent}/__init__.py", None); parent = os.path.dirname(parent)
        # __init__ of packages that are left empty
        for p in self.problems: print("!", p)
        print(f"{len(self.modules)} modules -> {sum(1 for t in texts if not t.endswith('__init__.py'))} and {sum(1 for t in texts if t.endswith('__init__.py'))} __init__")
        if not apply: return
        os.chdir(ROOT)
        for rel, m in self.modules.items():
            if self.new[rel] != rel or rel not in texts:
                pass
        for new, rels in groups.items():
            rels = [r for r in rels if r in self.modules]
            main = max(rels, key=lambda r: len(self.modules[r].text), default=None)
            for r in rels:
                if r == new: continue
                (SRC / new).parent.mkdir(parents=True, exist_ok=True)
                if r == main and not (SRC / new).exists(): subprocess.run(["git", "mv", str(SRC / r), str(SRC / new)], check=True)
                elif (SRC / r).exists(): subprocess.run(["git", "rm", "-qf", str(SRC / r)], check=True)
        for new, text in texts.items():
            path = SRC / new
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                if not path.exists(): path.write_text(f'"""TODO: {os.path.dirname(new)}."""\n')
            else: path.write_text(text)
        for d in sorted(SRC.rglob("*"), reverse=True):
            if d.is_dir() and d.name != "__pycache__" and not [x for x in d.rglob("*") if x.is_file() and "__pycache__" not in x.parts and x.name != "__init__.py"]:
                for x in d.rglob("__init__.py"): subprocess.run(["git", "rm", "-qf", str(x)]); x.unlink(missing_ok=True)
                import shutil; shutil.rmtree(d, ignore_errors=True)
        self.users()
    def users(self):
        """Tests and everything that names modules."""
        pairs = sorted(((m.name, self.target[m.name]) for m in self.modules.values() if m.name != self.target[m.name]), key=lambda p: -len(p[0]))
        for path in [*TESTS.rglob("*.py"), *(ROOT / "bench").glob("*.py")]:
            text = path.read_text()
            if "mirrormq" not in text: continue
            new = self.rewrite(text, ".".join(["tests", *path.relative_to(path.parents[1]).with_suffix("").parts]))
            if new != text: path.write_text(new)
        paths = sorted(((rel, self.new[rel]) for rel in self.modules if self.new[rel] != rel), key=lambda p: -len(p[0]))
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, cwd=ROOT).stdout.split("\n")
        for name in listed:
            path = ROOT / name
            if not path.is_file() or path.suffix not in {".py", ".md", ".toml", ".txt", ".cfg", "", ".sh", ".json", ".yml"} : continue
            if name.startswith("CHANGELOG"): continue
            try: text = path.read_text()
            except UnicodeDecodeError: continue
            new = text
            marks = {}
            is_py = path.suffix == ".py"
            kept = []
            if is_py:       # imports are done
                kept = [(i, l) for i, l in enumerate(new.split("\n")) if re.match(r"\s*(from|import) mirrormq", l)]
                ls = new.split("\n")
                for i, _ in kept: ls[i] = ""
                new = "\n".join(ls)
            for old, target in pairs:
                if old in new:
                    def sub(m, target=target):
                        key = f"\0{len(marks)}\0"; marks[key] = target; return key
                    new = re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", sub, new)
            for old, target in paths:
                if old in new:
                    def sub2(m, target=target):
                        key = f"\0{len(marks)}\0"; marks[key] = target; return key
                    new = re.sub(rf"(?<![\w/]){re.escape(old)}(?!\w)", sub2, new)
                    new = re.sub(rf"(?<=src/mirrormq/){re.escape(old)}(?!\w)", sub2, new)
            if is_py:
                ls = new.split("\n")
                for i, l in kept: ls[i] = l
                new = "\n".join(ls)
            for key, target in marks.items(): new = new.replace(key, target)
            if new != text: path.write_text(new)

def main():
    p = argparse.ArgumentParser(); p.add_argument("plan", nargs="+"); p.add_argument("--apply", action="store_true")
    o = p.parse_args()
    plan = {"modules": []}
    for n in o.plan: plan["modules"] += [{"old": old, "new": new} for old, new in json.loads(Path(n).read_text())["modules"].items()]
    Mover(plan).run(o.apply)

if __name__ == "__main__": main()
