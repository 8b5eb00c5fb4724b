"""MapReduce: words of a text, mapped by file, shuffled by first letter, reduced."""
import collections

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
TEXTS = ["the cat saw the dog", "a dog and a cat", "the end of the text and of the example"]
PARTITIONS = 3


def partition(word):
    return (ord(word[0]) - ord("a")) % PARTITIONS


@ray.remote(num_returns=PARTITIONS)
def map_words(text):
    parts = [collections.Counter() for _ in range(PARTITIONS)]
    for word in text.split():
        parts[partition(word)][word] += 1
    return parts


@ray.remote
def reduce_words(*counters):
    total = collections.Counter()
    for counter in counters:
        total.update(counter)
    return total


mapped = [map_words.remote(text) for text in TEXTS]
reduced = ray.get([reduce_words.remote(*column) for column in zip(*mapped)])
counts = collections.Counter()
for part in reduced:
    counts.update(part)
print(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
print([len(part) for part in reduced])
