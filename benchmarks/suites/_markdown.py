"""Tables of the result pages."""


def table(columns, rows):
    """A Markdown table: the titles of its columns, then the cells of each row; all of them str."""
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    lines.insert(1, "|" + "---|" * len(columns))
    return "\n".join(lines) + "\n"
