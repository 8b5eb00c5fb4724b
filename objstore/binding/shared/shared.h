/* Memory of the segment that every process may write to: arrays (array.c), and primitives that such memory needs
 * (sync.c). See core/objects/shared_sync.h. */
#ifndef CELLMESH_BINDING_SHARED_H
#define CELLMESH_BINDING_SHARED_H

#include "binding.h"

extern const codec_shared shared_memory;             /* for codec_hooks */
void shared_note_view(PyObject *owner, bool begins); /* for codec_source; `owner` is a Ref of a shared object */
bool shared_has(ClientObject *c, const void *data);  /* whether it is in a shared object of which there is a view */

extern PyMethodDef sync_functions[]; /* of the module */
PyObject *core_shared_place(PyObject *module, PyObject *array);
PyObject *core_shared_view(PyObject *module, PyObject *args);

int shared_reserve(void); /* before a view is made. -1: an exception */

/* Memory for an encoded value, with zeros in the place of its buffers, and of what `size` has beyond it; 0: an
 * exception. Then a Ref to the shared object that it is; `kind`: its n_refs. */
uint64_t shared_begin(ClientObject *c, Encoded *e);
PyObject *shared_seal(ClientObject *c, const Encoded *e, uint64_t offset, uint32_t kind);
/* The bytes of a ref's shared object; waits where another machine has not yet said that it stays there. NULL with an
 * exception. */
unsigned char *shared_bytes(void *client, PyObject *ref, uint64_t *size);
/* Of each array of a shared object (name or None, dtype, shape), or what else it is; None: it is not shared. */
PyObject *shared_forms(ClientObject *c, uint32_t slot);

#endif
