;;; drive.el --- What somebody does with a kernel in Emacs  -*- lexical-binding: t -*-

;; CLIENT in the environment is the language client, "eglot" or "lsp-mode"; the settings of
;; docs/editors.md for it are in INIT.  What comes true is written to REPORT, and each step that
;; does not ends Emacs with 1.

(require 'cl-lib)
(require 'flymake)
(require 'subr-x)

(defvar drive-client (getenv "CLIENT"))
(defvar drive-seconds (string-to-number (or (getenv "E2E_SECONDS") "120")))
(defvar drive-answers nil "What the user will choose, in this order, where something is asked.")
(defvar drive-questions nil "What was asked, the last one first.")
(defvar drive-messages nil "What was said in the echo area, the last one first.")

(defun drive-lsp-mode () (equal drive-client "lsp-mode"))

(defun drive-say (text)
  (write-region (concat text "\n") nil (getenv "REPORT") t 'quiet))

(defun drive-fail (text)
  (drive-say (concat "FAILED: " text))
  (dolist (name '("*Messages*" "*EGLOT stderr*" "*accelopt::stderr*"))
    (when (get-buffer name)
      (with-current-buffer name
        (drive-say (concat "-- " name "\n" (buffer-substring-no-properties
                                            (max (point-min) (- (point-max) 3000))
                                            (point-max)))))))
  (kill-emacs 1))

(defun drive-await (what condition)
  "Wait until CONDITION holds, which is WHAT; gives its value."
  (let ((end (+ (float-time) drive-seconds)) found)
    (while (not (or (setq found (funcall condition)) (> (float-time) end)))
      (sit-for 0.05))
    (unless found (drive-fail what))
    (drive-say (concat "ok: " what))
    found))

(defun drive-read (prompt collection &rest _)
  "Choose as the user would: the next of `drive-answers' that PROMPT offers in COLLECTION."
  (let* ((titles (all-completions "" collection))
         (wanted (car drive-answers))
         (chosen (cl-find-if (lambda (title) (and wanted (string-match-p wanted title))) titles)))
    (push (format "%s %S" prompt titles) drive-questions)
    (unless chosen (drive-fail (format "nothing like %S to choose: %s" wanted (car drive-questions))))
    (pop drive-answers)
    chosen))

(defun drive-errors ()
  (cl-remove-if-not (lambda (d) (memq (flymake-diagnostic-type d) '(eglot-error :error)))
                    (flymake-diagnostics)))

(defun drive-place (text)
  (goto-char (point-min))
  (search-forward text)
  (goto-char (match-beginning 0)))

(defun drive-overlay-texts ()
  (delq nil (mapcar (lambda (o) (or (overlay-get o 'after-string) (overlay-get o 'before-string)))
                    (overlays-in (point-min) (point-max)))))

(defun drive-open ()
  (find-file "weigh.py")
  (if (drive-lsp-mode) (lsp) (call-interactively #'eglot))
  (drive-await "the client has started"
               (lambda ()
                 (if (drive-lsp-mode)
                     (and (lsp-workspaces)
                          (eq 'initialized (lsp--workspace-status (car (lsp-workspaces)))))
                   (eglot-managed-p)))))

(defun drive-diagnostics ()
  (drive-await "what is slow is marked" #'flymake-diagnostics)
  (when (drive-errors) (drive-fail "a kernel that is right has errors"))
  (drive-place "    return out")
  (insert "    whole = nl.load(x)\n")
  (forward-line -1)
  (let ((line (line-number-at-pos)))
    (drive-await "a tile over 256 partitions is an error at its line"
                 (lambda ()
                   (cl-some (lambda (d) (= line (line-number-at-pos (flymake-diagnostic-beg d))))
                            (drive-errors)))))
  (delete-region (line-beginning-position) (1+ (line-end-position)))
  (drive-await "the error goes with its line" (lambda () (null (drive-errors)))))

(defun drive-hover ()
  (drive-place "load(x[nl.ds(i")
  (if (drive-lsp-mode)
      (lsp-describe-thing-at-point)
    (eldoc t))
  (let ((name (if (drive-lsp-mode) "*lsp-help*" "*eldoc")))
    (drive-await "what is known of nl.load is shown"
                 (lambda ()
                   (cl-some (lambda (buffer)
                              (and (string-prefix-p name (string-trim-left (buffer-name buffer)))
                                   (with-current-buffer buffer
                                     (save-excursion (goto-char (point-min))
                                                     (search-forward "nl.load" nil t)))))
                            (buffer-list))))))

(defun drive-completion ()
  (drive-place "nl.multiply")
  (search-forward "nl.mul")
  (let* ((found (run-hook-wrapped
                 'completion-at-point-functions
                 (lambda (function) (let ((value (funcall function)))
                                      (and (consp value) value)))))
         (names (and found (all-completions "mul" (nth 2 found)))))
    (unless (cl-some (lambda (name) (string-match-p "multiply" name)) names)
      (drive-fail (format "nl.mul is not completed to nl.multiply: %S" names)))
    (drive-say "ok: nl.mul is completed to nl.multiply")))

(defun drive-lenses ()
  (when (drive-lsp-mode)
    (drive-await "a code lens has the latency"
                 (lambda ()
                   (cl-some (lambda (text) (string-match-p "[mµ]s" text)) (drive-overlay-texts))))))

(defun drive-optimize ()
  (let ((before (buffer-string)))
    (drive-place "def weigh")
    (undo-boundary)
    (setq drive-answers '("Optimize kernel weigh" "Apply"))
    (if (drive-lsp-mode)
        (lsp-execute-code-action (lsp--select-action (lsp-code-actions-at-point)))
      (let ((last-nonmenu-event ?a))  ; not by the mouse
        (call-interactively #'eglot-code-actions)))
    (drive-await "the result of the run is applied"
                 (lambda () (not (equal (buffer-string) before))))
    (unless (cl-some (lambda (text) (string-match-p "faster" text)) drive-questions)
      (drive-fail (format "no question has the evidence: %S" drive-questions)))
    (drive-await "the changed kernel has no errors" (lambda () (null (drive-errors))))
    (undo-boundary)
    (setq last-command nil)
    (undo)
    (unless (equal (buffer-string) before)
      (drive-fail "one undo does not take the result back"))
    (drive-say "ok: one undo takes the result back")))

(defun drive ()
  (condition-case problem
      (progn
        (load (getenv "INIT") nil t)
        (advice-add 'completing-read :override #'drive-read)
        (advice-add 'y-or-n-p :override (lambda (prompt) (push prompt drive-questions) t))
        (drive-open)
        (drive-diagnostics)
        (drive-hover)
        (drive-completion)
        (drive-lenses)
        (drive-optimize)
        (set-buffer-modified-p nil)
        (if (drive-lsp-mode) (lsp-workspace-shutdown (car (lsp-workspaces)))
          (eglot-shutdown (eglot-current-server)))
        (drive-say "done")
        (kill-emacs 0))
    (error (drive-fail (error-message-string problem)))))

(setq inhibit-startup-screen t)
(setq lsp-auto-guess-root t  ; else it asks for the project, by single keys
      lsp-session-file (expand-file-name "lsp-session" (file-name-directory (getenv "REPORT")))
      lsp-enable-suggest-server-download nil
      lsp-enable-snippet nil
      lsp-diagnostics-provider :flymake
      lsp-lens-enable t)
(package-activate-all)  ; as Emacs does itself where there is an init file
(run-with-timer 0.1 nil #'drive)
;;; drive.el ends here
