"""Ray as an engine: what the engine's process has within Ray's cluster (`engine`, `joining`) and outside of it
(`outside`), the process that has Ray Client there (`client`), and what Ray's workers have (`engine`, `host`, `relay`);
never what is not a public interface of Ray's."""
