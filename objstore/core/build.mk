# How the C sources are compiled, and where they lie: the one list, which three builds read. The Makefile beside it
# includes this file; CMakeLists.txt and scripts/devtree.py read its lines, so each is NAME = words and nothing else.

FLAGS = -std=c11 -pthread
# Only of extension modules: nothing but PyInit_ can be seen from outside.
MODULE_FLAGS = -fPIC -fvisibility=hidden
# In every developer's build; an installation from source goes without them.
WARNINGS = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror

# All *.c of these folders, below objstore/core, in the order of dependency. Tests lie in others.
CORE_FOLDERS = . memory objects retries tasks recovery clients
# Likewise, below objstore/binding, * being any; without the module for the codec's own tests.
BINDING_FOLDERS = . *
BINDING_EXCLUDED = codec/testmodule.c
