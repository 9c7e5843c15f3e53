module ray-train-dlc/git-server

go 1.26.0
