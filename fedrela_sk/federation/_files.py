"""Files replaced in one step: a reader sees the whole of the old one or of the new one."""

import os
import uuid


def replace_file(path, content):
    """Write a file in one step: under another name first. Whoever may read the folder may read it.

    Parameters
    ----------
    path : Path
    content : bytes
    """
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
