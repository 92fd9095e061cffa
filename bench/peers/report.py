"""The rows that cases give, as a table."""


def row(case, unit, found, goal=None, floor=None, note=""):
    """found: as measure.compare gives it. goal: (words, met). floor: what the arithmetic alone allows at the peak
    of matrix products, in the row's unit, and how many times longer ours takes."""
    return {"case": case, "unit": unit, **found, "goal": goal and goal[0], "met": goal and bool(goal[1]),
            "floor": floor and floor[0], "over_floor": floor and floor[1], "note": note}


def at_least(found, bound):
    """The goal of a ratio. Both ways to take it must reach it."""
    return f"ratio >= {bound:g}", min(found["ratio"], found["paired_ratio"]) >= bound


def number(value):
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def cells(r):
    goal = "" if r["goal"] is None else f"{r['goal']}: {'met' if r['met'] else 'missed'}"
    return [r["case"], r["unit"], *(number(r.get(name)) for name in NUMBERS), goal, r["note"]]


NUMBERS = ["ours", "peer", "paired_ratio", "ratio", "floor", "over_floor"]
HEAD = ["case", "unit", "ours", "peer", "ratio", "of medians", "floor", "ours/floor", "goal", "note"]


def table(rows):
    """As Markdown, columns lined up."""
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
                     for line in lines)
