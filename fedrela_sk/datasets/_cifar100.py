"""CIFAR-100: color pictures of 32 x 32 pixels in 100 classes (Krizhevsky 2009).

50,000 pictures for training and 10,000 for testing, 500 and 100 of each class: balanced. Cut the training
set to a long tail with `fedrela_sk.make_long_tailed`, and to clients with `fedrela_sk.splitters`.

The pictures are read from a folder in either of two layouts:

- "binary": train.bin and test.bin, records of 2 + 3,072 bytes: one of 20 superclasses, the class, the picture;
- "python": train and test, pickles. A pickle can run code when it is opened, so these are opened by a reader
  that builds arrays, lists, dictionaries and text and refuses all else.

The originals come from the home page of CIFAR-100 as cifar-100-binary.tar.gz and cifar-100-python.tar.gz. No
license is stated; cite A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009. The
superclasses are left out, and so are the files that name the classes: the names are known.
"""

from pathlib import Path
from typing import Any, Literal

from fedrela_sk._sklearn import validate_params
from fedrela_sk._typing import AnyPath
from fedrela_sk.datasets._cifar import IMAGE, PARAMETERS, binary_reader, find_files, python_reader
from fedrela_sk.datasets._images import image_bunch

_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
bowl boy bridge bus butterfly camel can castle caterpillar cattle
chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
plain plate poppy porcupine possum rabbit raccoon ray road rocket
rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CLASS_NAMES = _NAMES.split()

# folder inside the original archive, files of each split, reader of one file
_LAYOUTS = [
    ("cifar-100-binary", {"train": ["train.bin"], "test": ["test.bin"]}, binary_reader(n_labels=2)),
    ("cifar-100-python", {"train": ["train"], "test": ["test"]}, python_reader("fine_labels", "CIFAR-100")),
]


@validate_params(PARAMETERS, prefer_skip_nested_validation=True)
def load_cifar100(
    folder: AnyPath, split: Literal["train", "test"] = "train", *, return_X_y: bool = False
) -> Any:
    """Load CIFAR-100 from a folder: 50,000 training or 10,000 test pictures in 100 classes.

    Parameters
    ----------
    folder : str or path-like
        Folder with the files of one layout (module docstring), or with the folder cifar-100-binary or
        cifar-100-python that the original archives unpack to. Of both layouts "binary" is read.
    split : {"train", "test"}, default="train"
    return_X_y : bool, default=False
        Return `(data, target)` instead of the Bunch.

    Returns
    -------
    bunch : Bunch
        data : ndarray of shape (n, 3, 32, 32), uint8; image, channel (red, green, blue), row, column;
            0 to 255.
        target : ndarray of shape (n,), int64, 0 to 99.
        target_names : list of str.
        DESCR : str.

    Raises
    ------
    DatasetError
        If the folder has no layout, or a file is damaged.
    """
    read, (path,) = find_files(Path(folder), split, _LAYOUTS, "CIFAR-100")
    images, labels = read(path)
    return image_bunch(
        images, labels, IMAGE, CLASS_NAMES, description=__doc__, source=str(folder), return_X_y=return_X_y
    )
