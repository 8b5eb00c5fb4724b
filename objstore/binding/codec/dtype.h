/* dtypes between the files of the codec that know numpy. Both functions want numpy's API to be there. */
#ifndef CELLMESH_CODEC_DTYPE_H
#define CELLMESH_CODEC_DTYPE_H

#include "codec/internal.h"

#include "codec/numpy_api.h"

int codec_put_dtype(encoder *e, PyArray_Descr *dtype); /* enum encoding */
PyArray_Descr *codec_take_dtype(reader *r);            /* new reference; NULL with ValueError if damaged */
PyArray_Descr *codec_take_item_dtype(reader *r);       /* likewise, of what an array's items can be */

#endif
