#!/usr/bin/env python3
"""Writes the table of values in charts/sluice/README.md from values.schema.json and values.yaml. --check: only say whether it is up to date."""
import json
import os
import sys

import yaml

CHART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "charts", "sluice")
README = os.path.join(CHART, "README.md")
BEGIN, END = "<!-- values: written by tools/gen_chart_readme.py -->\n", "<!-- end of values -->\n"


def rows(schema, values, path=""):
    for name, s in schema["properties"].items():
        here = f"{path}{name}"
        if here == "global":
            continue
        if "properties" in s:
            yield from rows(s, values[name], here + ".")
        else:
            yield here, json.dumps(values[name]), s["description"]


def table():
    with open(os.path.join(CHART, "values.schema.json")) as f, open(os.path.join(CHART, "values.yaml")) as v:
        schema, values = json.load(f), yaml.safe_load(v)
    out = "| Value | Default | Meaning |\n|---|---|---|\n"
    for name, default, text in rows(schema, values):
        out += f"| `{name}` | `{default}` | {text.replace('|', chr(92) + '|')} |\n"
    return out


def main():
    with open(README) as f:
        old = f.read()
    head, begin, rest = old.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit("charts/sluice/README.md has lost the marks around its table of values")
    new = head + BEGIN + table() + END + tail
    if "--check" in sys.argv[1:]:
        if new != old:
            sys.exit("the table of values in charts/sluice/README.md is not what tools/gen_chart_readme.py writes")
        return
    with open(README, "w") as f:
        f.write(new)


if __name__ == "__main__":
    main()
