"""Judge what a test run left: no test skipped where all data are there, coverage, excluded lines.

python .ci/check_reports.py JUNIT_XML COVERAGE_JSON
"""

import ast
import json
import os
import sys
import xml.etree.ElementTree as ElementTree

LEAST_COVERAGE = 95.0  # per cent of lines, and of branches
MOST_EXCLUDED = 20  # lines


def skipped_tests(path):
    """Name and reason of every skipped test; an expected failure is none."""
    skips = []
    for case in ElementTree.parse(path).iter("testcase"):
        for skip in case.iter("skipped"):
            if skip.get("type") != "pytest.xfail":
                skips.append(f"{case.get('classname')}::{case.get('name')}: {skip.get('message')}")
    return skips


def coverage_of(path):
    """(per cent of lines, per cent of branches, excluded lines that run)."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    totals = report["totals"]
    lines = 100 * totals["covered_lines"] / totals["num_statements"]
    branches = 100 * totals["covered_branches"] / totals["num_branches"]
    for_types = sum(
        len(set(facts["excluded_lines"]) & lines_for_types(name)) for name, facts in report["files"].items()
    )
    return lines, branches, totals["excluded_lines"] - for_types


def lines_for_types(path):
    """Lines of a file that never run: under ``if TYPE_CHECKING:``, for type checkers and editors."""
    with open(path, encoding="utf-8") as file:
        blocks = [node for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.If)]
    return {
        line
        for block in blocks
        if ast.unparse(block.test) == "TYPE_CHECKING"
        for line in range(block.lineno, block.body[-1].end_lineno + 1)
    }


def main(junit, coverage):
    """Lines to print and, after them, what is wrong."""
    skips = skipped_tests(junit)
    lines, branches, excluded = coverage_of(coverage)
    said = [f"Coverage: {lines:.1f} % of lines, {branches:.1f} % of branches, {excluded} lines excluded"]
    said += [f"Skipped: {skip}" for skip in skips]
    wrong = []
    if skips and os.environ.get("FEDRELA_SK_DATA"):
        wrong.append(f"{len(skips)} tests were skipped though FEDRELA_SK_DATA is set")
    if min(lines, branches) < LEAST_COVERAGE:
        wrong.append(f"coverage is below {LEAST_COVERAGE} %")
    if excluded > MOST_EXCLUDED:
        wrong.append(f"{excluded} lines are excluded from coverage, at most {MOST_EXCLUDED} may be")
    return said, wrong


if __name__ == "__main__":
    said, wrong = main(*sys.argv[1:])
    sys.stdout.write("\n".join(said) + "\n")
    sys.exit("; ".join(wrong) or None)  # sys.exit("") would be a failure
