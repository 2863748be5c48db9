"""Tasks whose answer is known: one room each, all of them pure functions of random words.

    task                what theory says of more heads
    copy, induction,    a plateau: one head a layer is enough
    recall, markov
    max_retrieval       they help, until there is one a direction
    farthest_point      they hurt: the rank of a head is what counts

`stream` turns any of them into batches.
"""
