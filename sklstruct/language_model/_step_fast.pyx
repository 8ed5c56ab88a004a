"""One word after one state, or one class after one window, without arrays.

A call costs a microsecond or so, where the functions over arrays of states cost tens
of microseconds for the arrays alone.
"""

from ..context_tree._find_fast cimport find_child, find_pair


cdef enum:
    LONGEST = 64


cdef class Stepper:
    """Reads one word after a state, without an array a call.

    Parameters
    ----------
    parent, symbol, child_ptr, root_child, pair_ptr, target, log_prob, log_backoff
        Of a back-off model whose nodes are states.

    class_of_token : int32 ndarray
        The class of each token, negative for one without; its last entry is that of a
        word without token.

    code : dict
        The token of each word.

    unknown : int
        The token of other words.

    end, begin : int
        The token of the end mark, -1 for none, and the state that follows it.
    """

    cdef const int[::1] parent, symbol, child_ptr, root_child, pair_ptr, target
    cdef const int[::1] class_of_token
    cdef const double[::1] log_prob, log_backoff
    cdef dict code
    cdef int unknown, end, begin, n_symbols

    def __init__(
        self, parent, symbol, child_ptr, root_child, pair_ptr, target, log_prob,
        log_backoff, class_of_token, dict code, int unknown, int end, int begin,
        int n_symbols,
    ):
        self.parent, self.symbol, self.child_ptr = parent, symbol, child_ptr
        self.root_child, self.pair_ptr, self.target = root_child, pair_ptr, target
        self.log_prob, self.log_backoff = log_prob, log_backoff
        self.class_of_token, self.code, self.unknown = class_of_token, code, unknown
        self.end, self.begin, self.n_symbols = end, begin, n_symbols

    def step(self, state, word):
        """(natural log-probability, next state). None: the functions over arrays must
        answer (many states, a word that is no class, a context beyond 64 symbols)."""
        cdef int path[LONGEST]
        cdef int node, length = 0, p = -1, token, y, child
        cdef double total = 0.0
        if type(state) is not int:
            return None
        found = self.code.get(word)
        token = self.unknown if found is None else found
        y = self.class_of_token[token]
        if y < 0 or state < 0 or state >= self.parent.shape[0]:
            return None
        node = state
        while True:
            if p < 0:
                p = find_pair(self.pair_ptr, self.target, node, y)
                if p < 0:
                    total += self.log_backoff[node]
            if node == 0:
                break
            if length == LONGEST:
                return None
            path[length] = self.symbol[node]
            length += 1
            node = self.parent[node]
        total += self.log_prob[p]
        if token == self.end:
            return total, self.begin
        if token >= self.n_symbols:
            return total, 0
        child = self.root_child[token]
        while child >= 0:
            node = child
            if length == 0:
                break
            length -= 1
            child = find_child(self.symbol, self.child_ptr, node, path[length])
        return total, node


cdef class Path:
    """Reads a window as the symbols of a path, which a tree is walked along.

    Parameters
    ----------
    tables : int32 ndarray of shape (n_steps, n_tokens + 2)
        The symbol of each step, -1 for none, by token; those of -1 come first.

    position : int32 ndarray of shape (n_steps,)
        The position in the window of the token that each step reads, 1 for the last.

    missing : uint8 ndarray of shape (n_tokens + 2,)
        1 for a token that is missing history, as are those before it.

    width : int
        Length of a window.
    """

    cdef const int[:, ::1] tables
    cdef const int[::1] position
    cdef const unsigned char[::1] missing
    cdef Py_ssize_t width

    def __init__(self, tables, position, missing, Py_ssize_t width):
        self.tables, self.position, self.missing = tables, position, missing
        self.width = width

    def read(self, tuple window):
        """Symbols of a window in the order of the path, until history or tables end.

        The length of the window and its tokens are not checked.
        """
        cdef Py_ssize_t i, known = 0
        cdef int token, step
        while known < self.width:
            token = window[self.width - 1 - known]
            if self.missing[token + 1]:
                break
            known += 1
        out = []
        for i in range(self.position.shape[0]):
            if self.position[i] > known:
                break
            token = window[self.width - self.position[i]]
            step = self.tables[i, token + 1]
            if step < 0:
                break
            out.append(step)
        return out


cdef class Walk:
    """Finds the node of a path in a tree.

    Parameters
    ----------
    symbol, child_ptr, root_child
        Of the tree.
    """

    cdef const int[::1] symbol, child_ptr, root_child

    def __init__(self, symbol, child_ptr, root_child):
        self.symbol, self.child_ptr, self.root_child = symbol, child_ptr, root_child

    def locate(self, list symbols):
        """The deepest node of the path."""
        cdef int node = 0, child, s
        for s in symbols:
            if node == 0:
                child = self.root_child[s]
            else:
                child = find_child(self.symbol, self.child_ptr, node, s)
            if child < 0:
                break
            node = child
        return node


cdef class Leaf:
    """Scores of a back-off model after a node.

    Parameters
    ----------
    parent, pair_ptr, target, log_prob, log_backoff
        Of the model.
    """

    cdef const int[::1] parent, pair_ptr, target
    cdef const double[::1] log_prob, log_backoff

    def __init__(self, parent, pair_ptr, target, log_prob, log_backoff):
        self.parent, self.pair_ptr, self.target = parent, pair_ptr, target
        self.log_prob, self.log_backoff = log_prob, log_backoff

    def score(self, int node, int y):
        """Natural log-probability of a class after a node."""
        cdef double total = 0.0
        cdef int p
        while True:
            p = find_pair(self.pair_ptr, self.target, node, y)
            if p >= 0:
                return total + self.log_prob[p]
            total += self.log_backoff[node]
            node = self.parent[node]
