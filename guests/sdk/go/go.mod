module flyball.dev/sdk

go 1.25
