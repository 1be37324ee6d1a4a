# expect: not-found no 'kernel'
x = 1
