/* numpy's C API. Its function table is a static of numpy.c, which fills it when the first array comes along; the other
 * files share it, and may use it once they have met an array. */
#ifndef CELLMESH_NUMPY_API_H
#define CELLMESH_NUMPY_API_H

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL cellmesh_numpy_api
#include <numpy/arrayobject.h>

#endif
