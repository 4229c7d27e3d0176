package main

import (
	api "client/generated"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
)

func main() {
	log.SetFlags(0)
	client, err := api.NewClientWithResponses(os.Getenv("BASE_URL"), api.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	health, err := client.HealthzWithResponse(context.Background(), nil)
	if err != nil || health.JSON200 == nil {
		log.Fatal("healthz: ", err, health)
	}
	run, err := client.RunAgentWithResponse(context.Background(), "trading", nil,
		api.RunRequest{Asset: "BTC", Strategy: "momentum"})
	if err != nil || run.JSON200 == nil {
		log.Fatal("run: ", err, run)
	}
	signal, err := run.JSON200.AsSignal()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(signal.SignalId)
}
