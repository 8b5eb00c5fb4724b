// The ways in which a request or a message can fail.

/** The kernel could not do what was asked; `message` is a sentence for people. */
export class Refusal extends Error {
  constructor(
    readonly ename: string,
    evalue: string
  ) {
    super(evalue);
    this.name = 'Refusal';
  }
}

/** No answer came in time. */
export class NoAnswer extends Error {
  override name = 'NoAnswer';
}

/** A message that is not what the protocol says. */
export class ProtocolError extends Error {
  override name = 'ProtocolError';
}
