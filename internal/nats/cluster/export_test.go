package cluster

var ParseDemand = parseDemand
