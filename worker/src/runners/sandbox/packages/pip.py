"""Runs pip with its temporary files in the folder that the first argument names. Refuses requirements that are URLs."""

import os, runpy, sys, tempfile
tempfile.tempdir = os.environ['TMPDIR'] = os.environ['HOME'] = sys.argv.pop(1)
from pip._vendor.packaging import requirements
read = requirements.Requirement.__init__
def read_name(self, text):
    read(self, text)
    if self.url:
        print('a URL in place of a version', file=sys.stderr)
        raise requirements.InvalidRequirement('a URL in place of a version')
requirements.Requirement.__init__ = read_name
runpy.run_module('pip', run_name='__main__', alter_sys=True)
