"""Dask as an engine: what the engine's process has (`engine`, `actors`), what it has run in Dask's workers (`worker`,
`host`), and Dask's words (`terms`); never what is not a public interface of `distributed`."""
