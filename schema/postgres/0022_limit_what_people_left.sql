-- Whose rights limit what an alert or a link to a board may show, besides its maker: owners and makers of the key that made it.
ALTER TABLE alerts ADD COLUMN made_by_users integer[] NOT NULL DEFAULT '{}';
ALTER TABLE board_links ADD COLUMN made_by_users integer[] NOT NULL DEFAULT '{}';
