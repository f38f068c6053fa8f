# SPDX-License-Identifier: Apache-2.0
"""A schema as Petastorm leaves it beside its files, without Petastorm."""
import collections
import pickle
import sys
import types
import unittest.mock

import numpy as np


def schema_pickle(protocol, extra=None, images=None, last="name"):
    """A schema as Petastorm pickles it: its classes, by their names. images: (name, dtype, shape) of more
    of them; last: the name of the last field."""
    codecs = types.ModuleType("petastorm.codecs")
    unischema = types.ModuleType("petastorm.unischema")
    for name in ["ScalarCodec", "NdarrayCodec", "CompressedNdarrayCodec", "CompressedImageCodec"]:
        setattr(codecs, name, type(name, (object,), {"__module__": codecs.__name__}))
    field = collections.namedtuple("UnischemaField", "name numpy_dtype shape codec nullable")
    field.__module__ = unischema.__name__
    schema = type("Unischema", (object,), {"__module__": unischema.__name__})
    unischema.UnischemaField, unischema.Unischema = field, schema
    image, scalar = codecs.CompressedImageCodec(), codecs.ScalarCodec()
    image._image_codec, image._quality, scalar._spark_type = ".png", 80, 1.5
    s = schema()
    s._name = "Example"
    s._fields = collections.OrderedDict((f.name, f) for f in [
        field("id", np.int32, (), scalar, False),
        field("image", np.uint8, (None, None, 3), image, False),
        field("matrix", np.float32, (4, None), codecs.NdarrayCodec(), True),
        field("packed", np.int64, (7,), codecs.CompressedNdarrayCodec(), False),
        *(field(*given, image, False) for given in images or []),
        field(last, np.str_, (), None, True)])
    for f in s._fields.values():
        setattr(s, f.name, f)
    s.extra = extra
    modules = {m.__name__: m for m in (codecs, unischema)}
    modules["petastorm"] = types.ModuleType("petastorm")
    with unittest.mock.patch.dict(sys.modules, modules):
        return pickle.dumps(s, protocol)
