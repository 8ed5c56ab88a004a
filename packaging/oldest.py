"""Print the oldest versions of dependencies that pyproject.toml allows, for tests.

"numpy>=2.0" becomes "numpy==2.0.*": the last bug fix of the oldest version.
"""

import re
import tomllib
from pathlib import Path

with open(Path(__file__).parents[1] / "pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
frames = [line for line in extras["test"] if line.startswith("pandas")]
for line in project["dependencies"] + extras["plot"] + frames:
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups()
    print(f"{name}=={version}.*")
print("pytest", "pytest-xdist", "hypothesis", sep="\n")
