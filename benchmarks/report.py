"""Tables of saved results, with how many times better cellmesh is than each peer (or each API than the first one)."""

from __future__ import annotations

LABELS = {"pool_api": "ProcessPoolExecutor", "loky_api": "loky", "dask_api": "Dask", "ipp_api": "ipyparallel"}


def label(api: str) -> str:
    return LABELS.get(api, api)


def number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def value(result: dict) -> str:
    if "median" in result:
        return f"{number(result['median'])} ({number(result['min'])}..{number(result['max'])})"
    return "-" if "skipped" in result or not result else "failed"


def ratio(result: dict, base: dict) -> str:
    """How many times better than the base; in brackets the range of the rounds' own ratios."""
    if not (result.get("median") and base.get("median")):
        return ""

    def times(x: float, y: float) -> float:
        return x / y if result["better"] == "higher" else y / x

    text = f"{times(result['median'], base['median']):.2f}x"
    each = sorted(
        times(x, y) for x, y in zip(result.get("rounds", []), base.get("rounds", []), strict=False) if x and y
    )
    return text + (f" ({each[0]:.2f}..{each[-1]:.2f})" if len(each) > 1 else "")


def cpu(result: dict) -> str:
    return number(result["cpu_us_per_op"]) if result.get("cpu_us_per_op") and "median" in result else ""


def rows(runs: dict[str, dict]) -> list[list[str]]:
    """The table, its head first; `runs` maps an API to what compare.py saved of it."""
    apis = list(runs)
    ours = "cellmesh"
    pairs = [(ours, a) for a in apis if a != ours] if ours in apis else [(a, apis[0]) for a in apis[1:]]
    out = [
        [
            "workload",
            "unit",
            *(f"{label(a)}: median (min..max)" for a in apis),
            *(f"{label(a)}: CPU us/op" for a in apis),
            *(f"{label(a)} / {label(b)}" for a, b in pairs),
        ]
    ]
    for name in dict.fromkeys(n for a in apis for n in runs[a]["results"]):
        of = {a: runs[a]["results"].get(name, {}) for a in apis}
        unit = next(r["unit"] for r in of.values() if r)
        out.append(
            [name, unit, *map(value, of.values()), *map(cpu, of.values()), *(ratio(of[a], of[b]) for a, b in pairs)]
        )
    return out


def table(runs: dict[str, dict], markdown: bool = False) -> str:
    head, *body = rows(runs)
    if markdown:
        return "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *body])
    width = [max(len(r[i]) for r in [head, *body]) for i in range(len(head))]
    lines = ([c.ljust(width[i]) if i < 2 else c.rjust(width[i]) for i, c in enumerate(r)] for r in [head, *body])
    return "\n".join("  ".join(line) for line in lines)
