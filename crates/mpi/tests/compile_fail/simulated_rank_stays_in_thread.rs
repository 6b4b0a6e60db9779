//~ E0277 cannot be sent between threads safely
use hikyaku::sim::Rank;

fn main() {
    let rank = Rank::current();
    std::thread::spawn(move || rank.is_some());
}
