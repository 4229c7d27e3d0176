package weather

import "slices"

// Point is a place whose weather is evaluated.
type Point struct {
	Name                string
	Region              string // us, eu or asia
	lat, lon            float64
	cooling             float64 // λ: the weight of a degree above 18 °C relative to one below
	mean, swing         float64 // simulated climate: the year's mean and half its range, °C
	wet                 float64 // simulated climate: the share of wet days
	gulf                bool    // it is exposed to hurricanes
	demand, corn, wheat float64 // weights in its region; 0: not used
}

// Global stands for all regions.
const Global = "global"

// regionWeights are the weights of the regions' demand in Global.
var regionWeights = map[string]float64{"us": .40, "eu": .35, "asia": .25}

// coolings is λ by region.
var coolings = map[string]float64{"us": .5, "eu": .2, "asia": .4}

// points are all places, with rounded climates.
var points = func() []Point {
	list := []Point{
		{Name: "Chicago", Region: "us", lat: 41.88, lon: -87.63, demand: .28, mean: 10, swing: 14, wet: .33},
		{Name: "New York", Region: "us", lat: 40.71, lon: -74.01, demand: .27, mean: 13, swing: 12, wet: .33},
		{Name: "Boston", Region: "us", lat: 42.36, lon: -71.06, demand: .12, mean: 11, swing: 12.3, wet: .34},
		{Name: "Minneapolis", Region: "us", lat: 44.98, lon: -93.27, demand: .10, mean: 7.5, swing: 16.3, wet: .3},
		{Name: "Atlanta", Region: "us", lat: 33.75, lon: -84.39, demand: .11, mean: 17, swing: 10.2, wet: .31},
		{Name: "Dallas", Region: "us", lat: 32.78, lon: -96.80, demand: .12, mean: 19, swing: 11, wet: .22},
		{Name: "London", Region: "eu", lat: 51.51, lon: -0.13, demand: .22, mean: 11.5, swing: 6.8, wet: .4},
		{Name: "Berlin", Region: "eu", lat: 52.52, lon: 13.41, demand: .22, mean: 10, swing: 9.5, wet: .36},
		{Name: "Paris", Region: "eu", lat: 48.86, lon: 2.35, demand: .18, mean: 12.3, swing: 8, wet: .37},
		{Name: "Milan", Region: "eu", lat: 45.46, lon: 9.19, demand: .16, mean: 14, swing: 11, wet: .26},
		{Name: "Amsterdam", Region: "eu", lat: 52.37, lon: 4.90, demand: .12, mean: 10.7, swing: 7.2, wet: .42},
		{Name: "Warsaw", Region: "eu", lat: 52.23, lon: 21.01, demand: .10, mean: 9, swing: 10.5, wet: .36},
		{Name: "Beijing", Region: "asia", lat: 39.90, lon: 116.41, demand: .30, mean: 13, swing: 15, wet: .2},
		{Name: "Tokyo", Region: "asia", lat: 35.68, lon: 139.69, demand: .28, mean: 16, swing: 10.3, wet: .32},
		{Name: "Seoul", Region: "asia", lat: 37.57, lon: 126.98, demand: .18, mean: 12.8, swing: 13.8, wet: .29},
		{Name: "Shanghai", Region: "asia", lat: 31.23, lon: 121.47, demand: .14, mean: 17, swing: 12, wet: .35},
		{Name: "Delhi", Region: "asia", lat: 28.61, lon: 77.21, demand: .10, mean: 25, swing: 9, wet: .14},
		{Name: "Des Moines", Region: "us", lat: 41.59, lon: -93.62, corn: 1, mean: 10.3, swing: 15, wet: .3},
		{Name: "Champaign", Region: "us", lat: 40.12, lon: -88.24, corn: 1, mean: 11, swing: 13.8, wet: .32},
		{Name: "Lincoln", Region: "us", lat: 40.81, lon: -96.70, corn: 1, mean: 11, swing: 14.8, wet: .26},
		{Name: "Szeged", Region: "eu", lat: 46.25, lon: 20.15, corn: 1, mean: 11.5, swing: 11.3, wet: .28},
		{Name: "Craiova", Region: "eu", lat: 44.32, lon: 23.80, corn: 1, mean: 11.5, swing: 12.2, wet: .27},
		{Name: "Pau", Region: "eu", lat: 43.30, lon: -0.37, corn: 1, mean: 13.5, swing: 7, wet: .38},
		{Name: "Harbin", Region: "asia", lat: 45.80, lon: 126.53, corn: 1, mean: 4.5, swing: 20.5, wet: .26},
		{Name: "Changchun", Region: "asia", lat: 43.88, lon: 125.32, corn: 1, mean: 6, swing: 19.3, wet: .26},
		{Name: "Wichita", Region: "us", lat: 37.69, lon: -97.34, wheat: 1, mean: 14, swing: 13.5, wet: .24},
		{Name: "Oklahoma City", Region: "us", lat: 35.47, lon: -97.52, wheat: 1, mean: 16, swing: 12.3, wet: .23},
		{Name: "Bismarck", Region: "us", lat: 46.81, lon: -100.78, wheat: 1, mean: 6, swing: 16.5, wet: .25},
		{Name: "Chartres", Region: "eu", lat: 48.45, lon: 1.48, wheat: 1, mean: 11.3, swing: 8, wet: .36},
		{Name: "Magdeburg", Region: "eu", lat: 52.13, lon: 11.63, wheat: 1, mean: 10, swing: 9.3, wet: .34},
		{Name: "Poznan", Region: "eu", lat: 52.41, lon: 16.93, wheat: 1, mean: 9.3, swing: 10, wet: .34},
		{Name: "Zhengzhou", Region: "asia", lat: 34.75, lon: 113.62, wheat: 1, mean: 15, swing: 13.2, wet: .22},
		{Name: "Ludhiana", Region: "asia", lat: 30.90, lon: 75.86, wheat: 1, mean: 24, swing: 10, wet: .15},
		{Name: "Houston", Region: "us", lat: 29.76, lon: -95.37, gulf: true, mean: 21.3, swing: 8.8, wet: .29},
		{Name: "New Orleans", Region: "us", lat: 29.95, lon: -90.07, gulf: true, mean: 21, swing: 8.5, wet: .31},
	}
	for i := range list {
		list[i].cooling = coolings[list[i].Region]
	}
	return list
}()

// Points returns all places.
func Points() []Point { return slices.Clone(points) }

// station is a point with its weight in a sum. The weights in a sum add up to 1.
type station struct {
	*Point
	weight float64
}

// stations returns the points of a region that have a weight, normalised to a sum of 1.
// With byRegion the regions in Global are weighted by regionWeights.
func stations(region string, byRegion bool, weight func(*Point) float64) []station {
	var list []station
	sum := 0.0
	for i := range points {
		p := &points[i]
		w := weight(p)
		if w == 0 || region != Global && p.Region != region {
			continue
		}
		if region == Global && byRegion {
			w *= regionWeights[p.Region]
		}
		list = append(list, station{p, w})
		sum += w
	}
	for i := range list {
		list[i].weight /= sum
	}
	return list
}
