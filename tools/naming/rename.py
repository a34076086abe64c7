"""Type-aware renames over src and tests, by mypy's own analysis: the names of PLAN.json files, see README.md.

    python tools/naming/rename.py tools/naming/*.json [--apply] [--kinds classes,functions,members]
"""
import argparse, ast, io, json, os, re, sys, tokenize
from collections import defaultdict
from pathlib import Path
from mypy import build
from mypy.options import Options
from mypy.config_parser import parse_config_file
from mypy.find_sources import create_source_list
from mypy.nodes import *
from mypy.types import *
from mypy.patterns import Pattern, ClassPattern

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "mirrormq"

def analyse(paths):
    os.chdir(ROOT)
    options = Options()
    parse_config_file(options, lambda: None, "pyproject.toml", sys.stdout, sys.stderr)
    options.export_types = True
    options.preserve_asts = True
    options.incremental = False
    options.cache_dir = os.devnull
    options.check_untyped_defs = True
    options.python_version = (3, 11)
    options.mypy_path = ["src", "tests"]
    options.warn_unreachable = False
    return build.build(sources=create_source_list(paths, options), options=options)

def definer(info, name):
    for base in info.mro:
        if name in base.names: return base.fullname
    return info.fullname

def owners(t, name):
    t = get_proper_type(t)
    if isinstance(t, Instance): return [definer(t.type, name)]
    if isinstance(t, UnionType):
        r = []
        for i in t.items: r += owners(i, name) or []
        return r
    if isinstance(t, (CallableType, Overloaded)) and t.is_type_obj(): return [definer(t.type_object(), name)]
    if isinstance(t, TypeType): return owners(t.item, name)
    if isinstance(t, TypeVarType): return owners(t.upper_bound, name)
    if isinstance(t, TupleType): return owners(t.partial_fallback, name)
    if isinstance(t, LiteralType): return owners(t.fallback, name)
    return []

def module_of(file): return "mirrormq." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") if file != "__init__.py" else "mirrormq"

SKIP = {"node", "info", "type", "unanalyzed_type", "names", "analyzed", "unanalyzed_items", "var", "_fullname", "original_def", "deco_type", "target", "method_types", "inferred_item_type", "right_always", "type_annotation", "initialization_statement", "removed_base_type_exprs"}
ATTRS = {}

def attributes(node):
    cls = type(node)
    if cls not in ATTRS:
        names = []
        for c in cls.__mro__: names += [n for n in c.__dict__.get("__mypyc_attrs__", ()) if n not in names]
        if not names: names = [n for n in dir(node) if not n.startswith("__")]
        ATTRS[cls] = [n for n in names if n not in SKIP and n != "__dict__"]
    return ATTRS[cls]

class Walker:
    """A traverser over mypy's tree that looks at attributes; mypy's own is compiled and cannot be inherited."""
    def accept(self, node):
        if id(node) in self.seen: return
        self.seen.add(id(node)); self.alive.append(node)
        name = METHODS.get(type(node).__name__)
        if name: getattr(self, name)(node)
        else: self.descend(node)
    def descend(self, node):
        for name in attributes(node):
            try: value = getattr(node, name)
            except AttributeError: continue
            self.into(value)
    def into(self, value):
        if isinstance(value, (Statement, Expression, Pattern, Block, FuncItem, Argument, MypyFile, OverloadedFuncDef, Decorator)): self.accept(value)
        elif isinstance(value, (list, tuple)):
            for one in value: self.into(one)
METHODS = {"MemberExpr": "visit_member_expr", "SuperExpr": "visit_super_expr", "NameExpr": "visit_name_expr", "ClassDef": "visit_class_def",
  "FuncDef": "visit_func_def", "CallExpr": "visit_call_expr", "ClassPattern": "visit_class_pattern"}

class Finder(Walker):
    def __init__(self, types, names, plan):
        self.types = types
        self.seen = set(); self.alive = []
        self.plan = plan
        self.members = []   # (line, col, name, owners)
        self.globals = []   # (line, col, name, fullname)
        self.slots = []
        self.classes = []
        self.keywords = []  # (line, start, callee class fullname, name)
    def base_owners(self, expr, name):
        t = self.types.get(expr)
        r = owners(t, name) if t is not None else []
        if not r and isinstance(expr, RefExpr):
            n = expr.node
            if isinstance(n, TypeInfo): r = [definer(n, name)]
            elif isinstance(n, MypyFile): r = ["module:" + n.fullname]
            elif isinstance(n, Var) and n.type is not None: r = owners(n.type, name)
            elif isinstance(n, Var) and n.is_self and self.classes: r = [definer(self.classes[-1], name)]
        if not r and isinstance(expr, NameExpr) and expr.name == "self" and self.classes: r = [definer(self.classes[-1], name)]
        if not r and isinstance(expr, SuperExpr) and self.classes: r = []
        return r
    def visit_member_expr(self, o):
        self.descend(o)
        if o.end_line is None: return
        at = (o.end_line, o.end_column - len(o.name.encode()))
        if isinstance(o.node, (FuncDef, Var, Decorator, OverloadedFuncDef, TypeInfo, TypeAlias)) and o.kind == GDEF and isinstance(o.expr, RefExpr) and isinstance(o.expr.node, MypyFile):
            self.globals.append((*at, o.name, o.node.fullname)); return
        self.members.append((*at, o.name, self.base_owners(o.expr, o.name)))
    def visit_super_expr(self, o):
        self.descend(o)
        if self.classes:
            for base in self.classes[-1].mro[1:]:
                if o.name in base.names:
                    self.members.append((o.end_line, o.end_column - len(o.name.encode()), o.name, [base.fullname])); break
    def visit_name_expr(self, o):
        self.descend(o)
        n = o.node
        if n is None: return
        if o.kind == GDEF and isinstance(n, (FuncDef, Var, Decorator, OverloadedFuncDef)):
            self.globals.append((o.line, o.column, o.name, n.fullname))
        elif o.kind == MDEF and self.classes:
            self.members.append((o.line, o.column, o.name, [self.classes[-1].fullname]))
    def visit_class_def(self, o):
        self.classes.append(o.info)
        for s in o.defs.body:
            if isinstance(s, AssignmentStmt) and len(s.lvalues) == 1 and isinstance(s.lvalues[0], NameExpr) and s.lvalues[0].name in ("__slots__", "__match_args__"):
                self.slots.append((s.line, s.end_line, o.info))
        self.descend(o)
        self.classes.pop()
    def visit_func_def(self, o):
        if self.classes and isinstance(o.info, TypeInfo) and o.info is self.classes[-1] and not getattr(o, "_nested", False):
            self.members.append((o.line, ("def", o.name), o.name, [o.info.fullname]))
        elif o.fullname and o.fullname.rpartition(".")[0] in self.plan.modules:
            self.globals.append((o.line, ("def", o.name), o.name, o.fullname))
        self.descend(o)
    def visit_call_expr(self, o):
        self.descend(o)
        if isinstance(o.callee, (MemberExpr, NameExpr)) and o.callee.name in ("setattr", "getattr", "hasattr") and len(o.args) > 1 \
                and isinstance(o.args[1], StrExpr):
            target, word = o.args[0], o.args[1]
            node = target.node if isinstance(target, RefExpr) else None
            if isinstance(node, MypyFile): self.globals.append((word.line, word.column + 1, word.value, f"{node.fullname}.{word.value}"))
            else: self.members.append((word.line, word.column + 1, word.value, self.base_owners(target, word.value)))
        t = None
        if isinstance(o.callee, RefExpr) and isinstance(o.callee.node, TypeInfo): t = o.callee.node
        for name, arg in zip(o.arg_names, o.args):
            if name is None: continue
            if t is not None: self.keywords.append((o.line, o.end_line, arg.line, arg.column, t, name))
            elif isinstance(o.callee, (MemberExpr,)) and o.callee.name in ("_replace",):
                for c in self.base_owners(o.callee.expr, name): self.keywords.append((o.line, o.end_line, arg.line, arg.column, c, name))
            elif isinstance(o.callee, NameExpr) and o.callee.name == "replace" and o.args:
                tt = self.types.get(o.args[0])
                for c in (owners(tt, name) if tt else []): self.keywords.append((o.line, o.end_line, arg.line, arg.column, c, name))
    def visit_class_pattern(self, o):
        self.descend(o)
        n = o.class_ref.node
        for k, v in zip(o.keyword_keys, o.keyword_values):
            if isinstance(n, TypeInfo): self.keywords.append((o.line, o.end_line, v.line, v.column, n, k))

class Plan:
    def __init__(self, raw, kinds):
        self.modules = set()
        self.classes, self.functions, self.members = {}, {}, {}
        for file, old, new in raw.get("classes", []) if "classes" in kinds else []:
            self.classes[module_of(file), old] = new
        for file, old, new in raw.get("functions", []) if "functions" in kinds else []:
            m = module_of(file); self.modules.add(m)
            self.functions[f"{m}.{old}"] = new
        for file, cls, old, new in raw.get("members", []) if "members" in kinds else []:
            self.members[f"{module_of(file)}.{cls}", old] = new

def line_starts(text):
    return [0] + [m.end() for m in re.finditer("\n", text)]

class File:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text()
        self.lines = self.text.split("\n")
        self.edits = {}   # (line, charcol) -> (old, new)
    def char(self, line, bytecol):
        return len(self.lines[line - 1].encode()[:bytecol].decode())
    def edit(self, line, col, old, new, raw=None):
        have = self.lines[line - 1][col:col + len(old)]
        if have != old and raw is not None:
            col = raw
            have = self.lines[line - 1][col:col + len(old)]
        if have != old and not self.lines[line - 1].isascii():
            near = [m.start() for m in re.finditer(rf"\b{re.escape(old)}\b", self.lines[line - 1]) if (line, m.start()) not in self.edits]
            if near: col = min(near, key=lambda c: abs(c - col)); have = old
        if have != old: return f"{self.path}:{line}:{col}: expected {old!r}, found {have!r}"
        self.edits[line, col] = (old, new)
        return None
    def apply(self):
        for (line, col), (old, new) in sorted(self.edits.items(), reverse=True):
            l = self.lines[line - 1]
            self.lines[line - 1] = l[:col] + new + l[col + len(old):]
        self.path.write_text("\n".join(self.lines))

def main():
    p = argparse.ArgumentParser()
    p.add_argument("plan", nargs="+"); p.add_argument("--apply", action="store_true")
    p.add_argument("--kinds", default="classes,functions,members")
    p.add_argument("--paths", default="src,tests")
    o = p.parse_args()
    raw = defaultdict(list)
    for name in o.plan:
        for k, v in json.loads(Path(name).read_text()).items():
            if isinstance(v, list): raw[k] += v
    plan = Plan(raw, o.kinds.split(","))
    result = analyse(o.paths.split(","))
    print(len(result.errors), "mypy messages", file=sys.stderr)
    problems = []
    # --- the classes that are there
    infos = {}
    trees = {}
    for name, state in result.graph.items():
        if state.tree is None or not state.path or not os.path.abspath(state.path).startswith(str(ROOT)): continue
        if ".venv" in state.path or not state.path.endswith(".py"): continue
        trees[name] = (state.tree, Path(state.path).resolve())
    def collect(names):
        for sym in names.values():
            n = sym.node
            if isinstance(n, TypeInfo) and n.fullname not in infos:
                infos[n.fullname] = n
                collect(n.names)
    for tree, _ in trees.values(): collect(tree.names)
    for full in list(plan.functions):
        m, _, old = full.rpartition(".")
        sym = trees[m][0].names.get(old) if m in trees else None
        if sym is not None and isinstance(sym.node, (TypeAlias, TypeInfo)) or sym is not None and isinstance(sym.node, Var) and re.match("[A-Z][a-z]", old):
            plan.classes[m, old] = plan.functions.pop(full)
    # --- overrides
    subs = defaultdict(set)
    for info in infos.values():
        for base in info.mro[1:]: subs[base.fullname].add(info.fullname)
    for (cls, old), new in list(plan.members.items()):
        if cls not in infos: problems.append(f"there is no class {cls} (for {old} -> {new})"); plan.members.pop((cls, old)); continue
        if old not in infos[cls].names: problems.append(f"{cls} has no {old} (-> {new})"); plan.members.pop((cls, old)); continue
    changed = True
    while changed:
        changed = False
        for (cls, old), new in list(plan.members.items()):
            related = subs[cls] | {b.fullname for b in infos[cls].mro[1:] if b.fullname in infos}
            for other in related:
                if old in infos[other].names:
                    if (other, old) not in plan.members:
                        plan.members[other, old] = new; changed = True
                        print(f"also {other}.{old} -> {new}", file=sys.stderr)
                    elif plan.members[other, old] != new:
                        problems.append(f"{cls}.{old} -> {new}, but {other}.{old} -> {plan.members[other, old]}")
    for (cls, old), new in plan.members.items():
        for other in {cls} | subs[cls] | {b.fullname for b in infos[cls].mro if b.fullname in infos}:
            if new in infos[other].names and (other, new) not in plan.members:
                problems.append(f"{cls}.{old} -> {new}: {other} has {new} already")
    seen = defaultdict(list)
    for (cls, old), new in plan.members.items(): seen[cls, new].append(old)
    for (cls, new), olds in seen.items():
        if len(olds) > 1: problems.append(f"{cls}: {olds} all become {new}")
    for full, new in plan.functions.items():
        m, _, old = full.rpartition(".")
        if m not in trees: problems.append(f"no module {m}"); continue
        names = trees[m][0].names
        if old not in names: problems.append(f"{m} has no {old}")
        if new in names and f"{m}.{new}" not in plan.functions: problems.append(f"{m} has {new} already ({old})")
    for (m, old), new in plan.classes.items():
        if m not in trees: problems.append(f"no module {m} ({old})"); continue
        if old not in trees[m][0].names: problems.append(f"{m} has no class {old}")
    dup = defaultdict(set)
    for (m, old), new in plan.classes.items(): dup[new].add((m, old))
    for n, i in ((k, v) for k, v in dup.items() if len(v) > 1): problems.append(f"class name {n} twice: {i}")
    member_names = defaultdict(set)     # old name -> classes that define it
    for info in infos.values():
        for name in info.names: member_names[name].add(info.fullname)
    planned = defaultdict(set)
    for (cls, old), new in plan.members.items(): planned[old].add((cls, new))
    # --- the places
    files = {}
    unknown = []
    for name, (tree, path) in trees.items():
        f = files.setdefault(path, File(path))
        finder = Finder(result.types, None, plan)
        finder.accept(tree)
        def put(line, col, old, new):
            raw = None
            if isinstance(col, tuple):
                for l in range(line, line + 12):
                    if l > len(f.lines): break
                    m = re.search(rf"\bdef\s+({re.escape(old)})\b", f.lines[l - 1])
                    if m: col = m.start(1); line = l; break
                else:
                    problems.append(f"{path}:{line}: def {old} not found"); return
            else:
                raw = col
                col = f.char(line, col)
            problem = f.edit(line, col, old, new, raw)
            if problem: problems.append(problem)
        for line, col, old, own in finder.members:
            if old not in planned: continue
            own = [x for x in dict.fromkeys(own or [])]
            if own == ["module:"]: continue
            if any(x.startswith("module:") for x in own): continue
            news = {plan.members.get((x, old)) for x in own}
            if not own:
                cand = {new for _, new in planned[old]}
                rest = member_names[old] - {c for c, _ in planned[old]}
                if len(cand) == 1 and not rest: put(line, col, old, cand.pop()); unknown.append(f"{path}:{line}: .{old} by name")
                else: unknown.append(f"{path}:{line}: .{old} UNDECIDED {cand} others {sorted(rest)[:4]}")
                continue
            if news == {None}: continue
            if len(news) > 1: problems.append(f"{path}:{line}: .{old} of {own} becomes {news}"); continue
            put(line, col, old, news.pop())
        for line, col, old, full in finder.globals:
            if full in plan.functions and full.rpartition(".")[2] == old: put(line, col, old, plan.functions[full])
        for line, end, info in finder.slots:
            for (cls, old), new in plan.members.items():
                if cls == info.fullname:
                    for l in range(line, end + 1):
                        for m in re.finditer(rf"\"({re.escape(old)})\"", f.lines[l - 1]): f.edit(l, m.start(1), old, new)
        for line, end, al, ac, info, key in finder.keywords:
            full = info if isinstance(info, str) else definer(info, key)
            if (full, key) not in plan.members: continue
            if not isinstance(info, str):
                init = info.names.get("__init__")
                if init is not None and not init.plugin_generated and isinstance(init.node, FuncDef) and init.node.line > 0 and not info.is_named_tuple and "dataclass" not in info.metadata:
                    continue
            # the name= right before the argument
            pre = f.lines[al - 1][: f.char(al, ac)]
            m = re.search(rf"\b({re.escape(key)})\s*=\s*\(?\s*$", pre)
            if m: put_char(f, al, m.start(1), key, plan.members[full, key], problems)
            else: problems.append(f"{path}:{al}: keyword {key} not found")
        # imports and class names by tokens
        source = f.text
        bound = {}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parts = name.split("."); is_pkg = path.name == "__init__.py"
                    parts = parts[: len(parts) - node.level + (1 if is_pkg else 0)]
                    base = ".".join([*parts, *([node.module] if node.module else [])])
                for a in node.names:
                    target = resolve(trees, base, a.name)
                    if target in plan.classes and (a.asname is None): bound[a.name] = plan.classes[target]
                    elif target in plan.classes:
                        for l in range(node.lineno, node.end_lineno + 1):
                            for m in re.finditer(rf"\b({re.escape(a.name)})(?= as )", f.lines[l - 1]): put_char(f, l, m.start(1), a.name, plan.classes[target], problems)
                    full = f"{target[0]}.{target[1]}"
                    if full in plan.functions:
                        for l in range(node.lineno, node.end_lineno + 1):
                            for m in re.finditer(rf"\b({re.escape(a.name)})\b", f.lines[l - 1]):
                                if l == node.lineno and m.start() < f.lines[l-1].find(" import "): continue
                                put_char(f, l, m.start(1), a.name, plan.functions[full], problems)
        for (m, old), new in plan.classes.items():
            if m == name: bound[old] = new
        if bound:
            prev = None
            for tok in tokenize.generate_tokens(io.StringIO(source).readline):
                if tok.type == tokenize.NAME and tok.string in bound and not (prev and prev.string == "."):
                    put_char(f, tok.start[0], tok.start[1], tok.string, bound[tok.string], problems)
                if tok.type == tokenize.STRING and '"""' not in tok.string:
                    body = tok.string.strip("\"'")
                    if re.fullmatch(r"[A-Za-z_\[\], .|]+", body):
                        for k, v in bound.items():
                            if re.fullmatch(rf"(list\[|dict\[.*|type\[)?{k}(\]|\[.*|\s*\|.*)?", body):
                                for m in re.finditer(rf"\b{k}\b", tok.string): unknown.append(f"{path}:{tok.start[0]}: string {tok.string} with class {k}")
                prev = tok
        # __all__
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
                for x in ast.walk(node.value):
                    if isinstance(x, ast.Constant) and isinstance(x.value, str) and not re.search(rf" as {x.value}\b", source):
                        target = resolve(trees, name, x.value)
                        new = plan.classes.get(target) or plan.functions.get(".".join(target))
                        if new: put_char(f, x.lineno, x.col_offset + 1, x.value, new, problems)
        # module.Class
        toks = [t for t in tokenize.generate_tokens(io.StringIO(source).readline)]
        aliases = {}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for a in node.names:
                    if f"{node.module}.{a.name}" in trees: aliases[a.asname or a.name] = f"{node.module}.{a.name}"
        for a, b, c in zip(toks, toks[1:], toks[2:]):
            if a.type == tokenize.NAME and b.string == "." and c.type == tokenize.NAME and a.string in aliases:
                t = (aliases[a.string], c.string)
                if t in plan.classes: put_char(f, c.start[0], c.start[1], c.string, plan.classes[t], problems)
    total = sum(len(f.edits) for f in files.values())
    for u in unknown: print("?", u)
    for x in dict.fromkeys(problems): print("!", x)
    print(f"{total} places in {sum(1 for f in files.values() if f.edits)} files, {len(set(problems))} problems, {len(unknown)} unknown")
    if o.apply:
        for f in files.values():
            if f.edits: f.apply()

def resolve(trees, module, name, depth=0):
    """Where a name that is imported from a module is defined."""
    if module in trees and depth < 5:
        sym = trees[module][0].names.get(name)
        if sym is not None and sym.node is not None and not isinstance(sym.node, MypyFile):
            full = sym.node.fullname
            if full: return (full.rpartition(".")[0], full.rpartition(".")[2])
    return (module, name)

def put_char(f, line, col, old, new, problems):
    problem = f.edit(line, col, old, new)
    if problem: problems.append(problem)

if __name__ == "__main__":
    main()
