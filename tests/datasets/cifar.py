"""Bytes of small CIFAR files as the original archives hold them."""

import pickle
import struct

import numpy as np


def python2_pickle(images, **labels):
    """The bytes that Python 2 and NumPy 1 wrote, as in the original archives: texts are bytes, protocol 2."""

    def text(value):
        return b"T" + struct.pack("<i", len(value)) + value

    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|")
    dtype += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"J" + struct.pack("<i", len(images)) + b"M\x00\x0c\x86"
    array += b"(K\x01" + shape + dtype + b"\x89" + text(images.tobytes()) + b"tb"
    entries = text(b"data") + array
    for name, values in labels.items():
        numbers = b"](" + b"".join(b"K" + bytes([value]) for value in values) + b"e"
        entries += text(name.encode()) + numbers
    return b"\x80\x02}(" + entries + b"u."


def python3_pickle(images, protocol, **labels):
    flat = images.reshape(len(images), -1)
    entries = {"data": flat} | {name: values.tolist() for name, values in labels.items()}
    return pickle.dumps(entries, protocol=protocol)


def binary(images, *labels):
    """Records: the labels, one byte each, then the picture."""
    flat = images.reshape(len(images), -1)
    return np.column_stack([*(values.astype(np.uint8) for values in labels), flat]).tobytes()
