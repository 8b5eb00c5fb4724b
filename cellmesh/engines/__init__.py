"""Sessions whose tasks run on somebody else's cluster, Ray's or Dask's: what is asked of an engine (`interface`), its
process, a peer of the session's agent (`peer`, `process`), and what runs tasks in its workers (`pocket`); never what
drivers do, as that is the same without an engine, and of an engine never what is not its public interface."""
