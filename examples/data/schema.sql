create table orders (id integer primary key, total numeric not null);
