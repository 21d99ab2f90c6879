module example.org/lingua-node

go 1.19
