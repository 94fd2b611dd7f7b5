//! Many machines train one network: carries out what the rules of `paceline-exchange` decide.
