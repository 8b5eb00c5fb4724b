/* What is the reader's alone (decision 122): private pages over the encoded bytes, asked for once for a value, when the
 * first of its buffers wants them; copies where there are none. */
#include "codec/internal.h"

void codec_pages_release(codec_pages *pages)
{
    if (pages != NULL && --pages->n_users == 0)
        pages->end(pages);
}

unsigned char *codec_own_bytes(reader *r, const body *from)
{
    const codec_source *source = r->source;
    if (!from->out_of_band || source->owner == NULL || source->pages == NULL)
        return NULL;
    if (!r->asked) {
        r->asked = true;
        r->pages = source->pages(source->ctx, r->data_start, (size_t)(r->data_end - r->data_start));
        if (r->pages != NULL)
            r->pages->n_users++;
    }
    return r->pages == NULL ? NULL : r->pages->bytes + (from->bytes - r->data_start);
}

PyObject *codec_own_buffer(reader *r, unsigned char *bytes, size_t size)
{
    return buffer_new(r->source->owner, r->source->view, bytes, size, true, r->pages);
}

PyObject *codec_body_as_own(reader *r, const body *from)
{
    unsigned char *bytes = codec_own_bytes(r, from);
    if (bytes != NULL)
        return codec_own_buffer(r, bytes, from->size);
    PyObject *copy = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)from->size);
    if (copy != NULL && from->size > 0)
        codec_copy_body(r, PyByteArray_AS_STRING(copy), from);
    return copy;
}
