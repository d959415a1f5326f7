"""The library is typed: its functions say what they take and give.

python3 -m unittest discover -s worker/skills/tests
"""

import importlib
import inspect
import pkgutil
import sys
import unittest

from host import SKILLS

sys.path.insert(0, str(SKILLS))

import openskill_sdk  # noqa: E402


class Types(unittest.TestCase):
    def functions(self):
        for found in pkgutil.walk_packages(openskill_sdk.__path__, "openskill_sdk."):
            module = importlib.import_module(found.name)
            for holder in [module, *(it for _, it in inspect.getmembers(module, inspect.isclass))]:
                for name, function in inspect.getmembers(holder, inspect.isfunction):
                    is_generated = name.startswith("__") and name != "__init__"
                    if function.__module__ == module.__name__ and not is_generated:
                        yield f"{module.__name__}.{holder.__name__}.{name}", function

    def test_every_function_is_annotated(self):
        seen = 0
        for name, function in self.functions():
            seen += 1
            with self.subTest(function=name):
                signature = inspect.signature(function)
                untyped = [key for key, it in signature.parameters.items() if it.annotation is it.empty and key != "self"]
                self.assertEqual([], untyped)
                self.assertIsNot(signature.return_annotation, signature.empty)
        self.assertGreater(seen, 50)

    def test_type_checkers_are_told(self):
        self.assertTrue((SKILLS / "openskill_sdk/py.typed").is_file())


if __name__ == "__main__":
    unittest.main()
