"""Wrap lines that a rename made too long: ruff formats just the statements that contain them."""
import json, subprocess, os, sys, ast
from pathlib import Path
ROOT=str(Path(__file__).resolve().parents[2]); RUFF=str(Path(sys.executable).with_name("ruff"))
os.chdir(ROOT)
def long_lines():
    out=subprocess.run([RUFF,"check",".","--select","E501","--output-format","json"],capture_output=True,text=True).stdout
    r={}
    for d in json.loads(out): r.setdefault(d["filename"],set()).add(d["location"]["row"])
    return r
def spans(text):
    """(first, last) of every simple statement or header."""
    res=[]
    for n in ast.walk(ast.parse(text)):
        if isinstance(n, ast.stmt):
            if isinstance(n,(ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef,ast.If,ast.For,ast.AsyncFor,ast.While,ast.With,ast.AsyncWith,ast.Try,ast.Match)):
                body=n.body if hasattr(n,"body") else n.cases
                first=n.lineno; last=(body[0].lineno if not isinstance(n,ast.Match) else n.subject.end_lineno)
                if isinstance(n,(ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef)) and n.decorator_list: first=min(d.lineno for d in n.decorator_list)
                # header ends before the body
                if not isinstance(n,ast.Match):
                    b=body[0]; bl=b.lineno
                    if isinstance(b,(ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef)) and b.decorator_list: bl=min(d.lineno for d in b.decorator_list)
                    last=max(first,bl-1)
                res.append((first,last))
            else: res.append((n.lineno,n.end_lineno))
    return res
before=long_lines(); print(sum(map(len,before.values())),"too long")
for f,rows in before.items():
    for row in sorted(rows,reverse=True):
        text=Path(f).read_text()
        hit=[s for s in spans(text) if s[0]<=row<=s[1]]
        if not hit: continue
        first,last=min(hit,key=lambda s:s[1]-s[0])
        seg=text.split("\n")[first-1:last]
        if last - first > 12: continue
        if seg[0].lstrip().startswith(('"""','r"""')): continue
        # a comment behind the code is moved above
        line=text.split("\n")[row-1]
        subprocess.run([RUFF,"format","--range",f"{first}:1-{last}:{len(seg[-1])+1}",f],capture_output=True)
after=long_lines(); print(sum(map(len,after.values())),"left")
for f,rows in after.items():
    lines=Path(f).read_text().split("\n")
    for r in sorted(rows): print(f.replace(ROOT+"/",""),r,lines[r-1].strip()[:170])

# --- what is left: rows of tables are broken at a comma, texts at a space
import re
out=subprocess.run([RUFF,"check",".","--select","E501","--output-format","json"],capture_output=True,text=True).stdout
by={}
for d in json.loads(out): by.setdefault(d["filename"],[]).append(d["location"]["row"])
for f,rows in by.items():
    p=Path(f); lines=p.read_text().split("\n")
    for r in sorted(rows,reverse=True):
        l=lines[r-1]; pad=re.match(r"\s*",l)[0]
        m=re.match(r'^(\s*(?:return |why = |raise \w+\()?\(?)(f?)"',l)
        depth=0; instr=False; cut=None; fstr=None
        # split positions: commas outside of strings and brackets
        i=len(pad); best=None; q=None; d=0
        while i<len(l):
            c=l[i]
            if q:
                if c=="\\": i+=1
                elif c==q: q=None
            elif c in "\"'": q=c
            elif c in "([{": d+=1
            elif c in ")]}": d-=1
            elif c=="," and d<=0 and i<118 and i+1<len(l) and l[i+1]==" ": best=i
            i+=1
        if best and best>40:
            lines[r-1:r]=[l[:best+1], pad+l[best+2:]]; continue
        # a string: split at a space outside of braces
        m=re.search(r'(f?)"',l)
        if m:
            s=m.end(); d=0; best=None; end=s
            while end<len(l) and l[end]!='"': end+=2 if l[end]=="\\" else 1
            for i in range(s,min(len(l),118,end)):
                if l[i]=="{": d+=1
                elif l[i]=="}": d-=1
                elif l[i]==" " and d==0: best=i
            if best and end>110:
                head=l[:best+1]+'"'; tail=(m[1] if '{' in l[best:] else '')+'"'+l[best+1:]
                col=m.start()
                stmt=re.match(r'^\s*(return|why =)\s',l)
                if stmt:
                    a=l[:col]; lines[r-1:r]=[a.rstrip()+" ("+l[col:best+1]+'"', " "*(len(a.rstrip())+2)+tail+")"]
                else: lines[r-1:r]=[head, " "*col+tail]
                continue
        print("by hand",f,r,l.strip()[:120])
    p.write_text("\n".join(lines))
