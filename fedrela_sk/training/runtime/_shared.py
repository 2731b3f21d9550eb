"""A folder of objects that worker processes share: arrays are mapped by all of them, and written in place.

The number of files never grows, and none is removed or cut while a worker may hold it mapped, which Windows
refuses.
"""

import mmap
import os
import pickle
import shutil
import tempfile
import weakref

try:
    import cloudpickle
except ImportError:  # older joblib carries it inside
    from joblib.externals import cloudpickle

_ALIGNED = 64


class SharedFolder:
    """A new folder for objects with arrays; removed by `close`, or at the latest with this process.

    Attributes
    ----------
    path : str
    """

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="fedrela_sk_")
        # also runs where `close` is never reached: an error before it, the end of the interpreter
        self.close = weakref.finalize(self, _remove, self.path, os.getpid())

    def write(self, name, thing):
        """Write an object over the one of that name; nobody may be at work on that one.

        Parameters
        ----------
        name : str
        thing : object
            Pickled by value, so that it may be of a class from a notebook. Contiguous arrays in it are put where
            workers can map them.
        """
        buffers = []
        index = cloudpickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
        places = self._write_arrays(name, buffers)
        with open(_file(self.path, name, "index"), "wb") as file:
            pickle.dump((places, index), file)

    def _write_arrays(self, name, buffers):
        """(start, end) of every buffer in one file, whose old content they take the place of."""
        places, start = [], 0
        with open(_file(self.path, name, "arrays"), "r+b" if self._holds(name) else "wb") as file:
            for buffer in buffers:
                view = buffer.raw()
                places.append((start, start + view.nbytes))
                file.seek(start)
                file.write(view)
                start += -(-view.nbytes // _ALIGNED) * _ALIGNED
        return places

    def _holds(self, name):
        return os.path.exists(_file(self.path, name, "arrays"))


def read_shared(path, name):
    """What `SharedFolder.write` wrote; its arrays are mapped, and writing to them changes nothing elsewhere.

    Parameters
    ----------
    path : str
        Of the folder.
    name : str
    """
    with open(_file(path, name, "index"), "rb") as file:
        places, index = pickle.load(file)
    if not any(end > start for start, end in places):
        return cloudpickle.loads(index, buffers=[bytearray() for _ in places])
    with open(_file(path, name, "arrays"), "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    return cloudpickle.loads(index, buffers=[mapped[start:end] for start, end in places])


def _file(path, name, kind):
    return os.path.join(path, f"{name}.{kind}")


def _remove(path, owner):
    """Remove a folder; what a worker still holds, on Windows, is at least emptied of rows."""
    if os.getpid() != owner:  # a forked worker that ends
        return
    shutil.rmtree(path, ignore_errors=True)
    for folder, _, names in os.walk(path):
        for name in names:
            _blank(os.path.join(folder, name))


def _blank(path):
    """Write zeros over a file."""
    try:
        with open(path, "r+b") as file:
            left = os.path.getsize(path)
            while left > 0:
                left -= file.write(bytes(min(left, 2**20)))
    except OSError:  # somebody else has removed it
        pass
